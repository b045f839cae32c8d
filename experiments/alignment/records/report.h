#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "table.h"

/* Formats the listing of the whole table, and prints how many lines it has, their sum of balances and their
 * checksum. */
void report_listing(const Table *table, FILE *out);

/* Prints the listing itself. */
void report_write(const Table *table, FILE *out);

/* Prints how many records have a positive, a zero and a negative balance, and the largest balance of each initial
 * letter. */
void report_totals(const Table *table, FILE *out);

#endif
