/* Declarations shared by the files of the outside sampler. Everything runs in the observer. */
#ifndef UNPERTURBED_OBSERVER_H
#define UNPERTURBED_OBSERVER_H

#include <stdint.h>

/* main.c: writes errno, what failed, and the state `failed` to the record file; returns -1. */
int unperturbed_refuse(const char *what);

/* shared.c: creates the memory from which the program's start-up code takes the pages of its counters. Returns 0, or
 * the result of unperturbed_refuse. */
int unperturbed_share(void);

/* Adds the software counters and the gauges to a record's values by metric: no system call for the counters (about 1 ns
 * each), one per 1,000 gauges. Returns 0, or the result of unperturbed_refuse if the gauges cannot be read. */
int unperturbed_read_shared(int64_t *value);

#endif
