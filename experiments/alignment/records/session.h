/* A session: commands, one a line, on one table.
 *
 *     add RECORD          a record is added at the end
 *     delete NUMBER       the record of this number is deleted
 *     sort KEY            number, name, city, phone or balance
 *     find NAME           in a table that is sorted by name: how many bear the name
 *     compact             holes that deleted records left are closed
 *     listing, totals     reports
 *     write               the whole table
 */
#ifndef SESSION_H
#define SESSION_H

#include <stdio.h>

#include "table.h"

typedef enum { SESSION_OK, SESSION_SYNTAX, SESSION_ABSENT, SESSION_UNSORTED, SESSION_MEMORY } SessionStatus;

/* Reads records, one a line, into the table. `line` is where it ended. */
SessionStatus session_load(FILE *in, Table *table, unsigned *line);

/* Carries out the commands. `line` is where it ended. */
SessionStatus session_run(FILE *in, Table *table, FILE *out, unsigned *line);

#endif
