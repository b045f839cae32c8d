/* What the files of the outside sampler share. All of it runs in the observer. */
#ifndef UNPERTURBED_OBSERVER_H
#define UNPERTURBED_OBSERVER_H

#include <stdint.h>

/* main.c: notes errno and what failed in the record file, and that the run has failed; returns -1. */
int unperturbed_refuse(const char *what);

/* shared.c: makes the memory that the program's start-up code takes its counters' pages from. Returns 0, or refuses. */
int unperturbed_share(void);

/* Adds the software counters and the gauges to a record's values by metric: no system call for the counters (some 1 ns
 * each), one for 1,000 gauges. Returns 0, or refuses when the gauges cannot be read. */
int unperturbed_read_shared(int64_t *value);

#endif
