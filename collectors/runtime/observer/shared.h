/* Declarations shared by the files of the outside samplers. Everything runs in the observer. */
#ifndef UNPERTURBED_OBSERVER_H
#define UNPERTURBED_OBSERVER_H

#include <stdint.h>

struct unperturbed_record;

/* recording.c: writes errno, what failed, and the state `failed` to the record file; returns -1. */
int unperturbed_refuse(const char *what);

/* Returns a timer that expires at each interval, or the result of unperturbed_refuse. */
int unperturbed_start_ticking(void);

/* Begins a record now; NULL if the file is full. */
struct unperturbed_record *unperturbed_begin_record(uint64_t overruns, uint64_t *position);

/* Ends a record; if its values could not be read (`unread`), counts that instead, and returns -1. */
int unperturbed_end_record(struct unperturbed_record *record, uint64_t position, int unread);

/* shared.c: creates the memory from which the program's start-up code takes the pages of its counters. Returns 0, or
 * the result of unperturbed_refuse. */
int unperturbed_share(void);

/* Adds the software counters and the gauges to a record's values by metric: no system call for the counters (about 1 ns
 * each), one per 1,000 gauges. Returns 0, or the result of unperturbed_refuse if the gauges cannot be read. */
int unperturbed_read_shared(int64_t *value);

#endif
