#include "sort.h"

static inline void swap_records(Record **left, Record **right)
{
    Record *kept = *left;
    *left = *right;
    *right = kept;
}

static void sort_by_gap(Record **order, size_t count, size_t gap, Compare *compare)
{
    for (size_t next = gap; next < count; next++) {
        for (size_t place = next; place >= gap && compare(order[place - gap], order[place]) > 0; place -= gap)
            swap_records(&order[place - gap], &order[place]);
    }
}

void sort_table(Table *table, Key key)
{
    size_t gap = 1;
    while (gap < table->count / 3)
        gap = 3 * gap + 1;
    for (; gap > 0; gap /= 3)
        sort_by_gap(table->order, table->count, gap, record_compare(key));
    table->key = key;
    table->sorted = true;
}
