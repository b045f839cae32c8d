/* The table: records in memory, and the order in which they are listed.
 *
 * Records lie where they were put; the order is an array of pointers. A deleted record leaves a hole until the table is
 * compacted.
 */
#ifndef TABLE_H
#define TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "record.h"

typedef struct {
    Record *records; /* `used` places, holes among them */
    Record **order;  /* `count` pointers into them */
    size_t used;
    size_t count;
    size_t room; /* of both arrays */
    bool sorted; /* the order is that of `key` */
    Key key;
} Table;

/* False: not enough memory. */
bool table_add(Table *table, const Record *record);

/* Where the record of this number stands in the order, or `count`: it is searched for from the front. */
size_t table_position(const Table *table, uint32_t number);

/* Takes the record at this position out of the order; those behind it move up. */
void table_delete(Table *table, size_t position);

/* The first position whose record is not less than `wanted` by the key that the table is sorted by. */
size_t table_lower_bound(const Table *table, const Record *wanted);

/* Copies the records into a new place in their order and without holes. False: not enough memory. */
bool table_compact(Table *table);

void table_free(Table *table);

#endif
