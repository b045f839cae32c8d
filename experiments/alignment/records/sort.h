#ifndef SORT_H
#define SORT_H

#include "table.h"

/* Sorts the table's order by a key: Shell's sort, by swapping neighbours that are a gap apart, with the gaps 1, 4, 13,
 * 40, … */
void sort_table(Table *table, Key key);

#endif
