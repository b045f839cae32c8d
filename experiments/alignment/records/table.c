#include "table.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 1024 };

static bool grow(Table *table)
{
    size_t room = table->room ? 2 * table->room : FIRST_ROOM;
    Record *records = malloc(room * sizeof *records);
    Record **order = malloc(room * sizeof *order);
    if (!records || !order) {
        free(records);
        free(order);
        return false;
    }
    if (table->used)
        memcpy(records, table->records, table->used * sizeof *records);
    for (size_t position = 0; position < table->count; position++)
        order[position] = records + (table->order[position] - table->records);
    free(table->records);
    free(table->order);
    table->records = records;
    table->order = order;
    table->room = room;
    return true;
}

bool table_add(Table *table, const Record *record)
{
    if (table->used == table->room && !grow(table))
        return false;
    Record *place = &table->records[table->used++];
    *place = *record;
    table->order[table->count++] = place;
    table->sorted = false;
    return true;
}

size_t table_position(const Table *table, uint32_t number)
{
    size_t position = 0;
    while (position < table->count && table->order[position]->number != number)
        position++;
    return position;
}

void table_delete(Table *table, size_t position)
{
    table->count--;
    memmove(&table->order[position], &table->order[position + 1], (table->count - position) * sizeof *table->order);
}

size_t table_lower_bound(const Table *table, const Record *wanted)
{
    Compare *compare = record_compare(table->key);
    size_t low = 0, high = table->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(table->order[middle], wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool table_compact(Table *table)
{
    if (!table->count)
        return true;
    Record *records = malloc(table->room * sizeof *records);
    if (!records)
        return false;
    for (size_t position = 0; position < table->count; position++) {
        records[position] = *table->order[position];
        table->order[position] = &records[position];
    }
    free(table->records);
    table->records = records;
    table->used = table->count;
    return true;
}

void table_free(Table *table)
{
    free(table->records);
    free(table->order);
    *table = (Table){0};
}
