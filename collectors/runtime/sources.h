/* The hardware counters that a sampler reads itself: each source opens, reads and closes a set of them behind the same three functions. */
#ifndef UNPERTURBED_SOURCES_H
#define UNPERTURBED_SOURCES_H

#include "unperturbed.h"

#include <sys/types.h>

/* The opened events of one thread (or, for an observer, of one process with all its threads). */
struct unperturbed_counters {
    uint32_t source;
    uint32_t options;
    uint32_t events;
    int event_set;                    /* PAPI */
    int fd[UNPERTURBED_EVENTS];       /* perf_event; the first leads the group */
    void *page[UNPERTURBED_EVENTS];   /* perf_event: the page that tells how to read in user space, or NULL */
    int64_t total[UNPERTURBED_EVENTS]; /* OPTION_RESET: what was counted before the last reset */
    uint64_t user_reads;              /* reads that needed no system call */
};

/* Opens and starts the events of the header on the calling thread (pid 0), or on process `pid`: from its next exec on, with all threads it will make.
 * Returns 0, or fills header->error and header->message and returns -1. */
int unperturbed_perf_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);
int unperturbed_papi_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);

/* Reads all events into record->value; returns -1 when they could not be read. perf: one read(2), about 1 us (rdpmc: some 30 ns an event).
 * PAPI: one PAPI_read, 144 cycles (rdpmc) to 2,500. With OPTION_RESET four such calls. */
int unperturbed_perf_read(struct unperturbed_counters *counters, struct unperturbed_record *record);
int unperturbed_papi_read(struct unperturbed_counters *counters, struct unperturbed_record *record);

void unperturbed_perf_close(struct unperturbed_counters *counters);
void unperturbed_papi_close(struct unperturbed_counters *counters);

/* Fills the names of the header's PAPI events with perf_event's encoding (by libpfm), so that an observer reads them as one group.
 * Returns 0; 1 when one of them has no such encoding; -1 with header->message when PAPI itself refuses. */
int unperturbed_papi_encode(struct unperturbed_header *header);

/* The kernel's probes of one process, with the threads that it makes from then on (children too with OPTION_CHILDREN); one group beside the hardware's. */
struct unperturbed_probes {
    uint32_t count;
    int fd[UNPERTURBED_PROBES]; /* the first leads the group */
};

/* Opens the header's probes on the calling thread (pid 0), counting at once, or on process `pid`, from its next exec on: some 10 ms each.
 * Returns 0, or fills header->error and header->message and returns -1. */
int unperturbed_probes_open(struct unperturbed_probes *probes, struct unperturbed_header *header, pid_t pid);

/* Adds the hits since opening to the software metrics of a record: one read(2), about 1 us. Returns -1, and adds nothing, when they could not be read. */
int unperturbed_probes_read(const struct unperturbed_probes *probes, const struct unperturbed_header *header, int64_t *software);

static inline int unperturbed_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    counters->source = header->source;
    counters->options = header->options;
    counters->events = header->events;
    if (counters->source == SOURCE_PERF)
        return unperturbed_perf_open(counters, header, pid);
    if (counters->source == SOURCE_PAPI)
        return unperturbed_papi_open(counters, header, pid);
    return 0;
}

static inline int unperturbed_read(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    if (counters->source == SOURCE_PERF)
        return unperturbed_perf_read(counters, record);
    if (counters->source == SOURCE_PAPI)
        return unperturbed_papi_read(counters, record);
    return 0;
}

static inline void unperturbed_close(struct unperturbed_counters *counters)
{
    if (counters->source == SOURCE_PERF)
        unperturbed_perf_close(counters);
    if (counters->source == SOURCE_PAPI)
        unperturbed_papi_close(counters);
}

#endif
