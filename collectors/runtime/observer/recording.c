/* The part of both observers that has no process to watch: ticks, records, and refusals. */
#define _GNU_SOURCE
#include "../common/runtime.h"
#include "shared.h"

#include <sys/timerfd.h>

/* PAPI's library in the Python wheel refers to this Python object, but PAPI never uses it: it only has to exist. */
__attribute__((visibility("default"))) char _Py_NoneStruct[64];

int unperturbed_refuse(const char *what)
{
    unperturbed_fail(what);
    __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
    return -1;
}

int unperturbed_start_ticking(void)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    struct itimerspec period;
    period.it_interval.tv_sec = (time_t)(unperturbed_header->interval_ns / 1000000000);
    period.it_interval.tv_nsec = (long)(unperturbed_header->interval_ns % 1000000000);
    period.it_value = period.it_interval;
    return timer >= 0 && timerfd_settime(timer, 0, &period, NULL) == 0
               ? timer
               : unperturbed_refuse("cannot set the observer's timer");
}

struct unperturbed_record *unperturbed_begin_record(uint64_t overruns, uint64_t *position)
{
    struct unperturbed_record *record = unperturbed_take(unperturbed_header, position);
    if (!record)
        return NULL;
    record->overruns = overruns;
    record->monotonic_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC);
    return record;
}

int unperturbed_end_record(struct unperturbed_record *record, uint64_t position, int unread)
{
    record->read_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC) - record->monotonic_ns;
    if (unread) { /* a record of zeros would be worse than no record */
        unperturbed_header->unread++;
        return -1;
    }
    unperturbed_commit(record, position);
    return 0;
}
