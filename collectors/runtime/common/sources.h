/* Sources: what counts for the sampler, each by the same few functions.
 *
 * A source of `unperturbed.collectors.sources` that is read in a program defines one `struct unperturbed_source` under
 * the name that its record gives. The build writes unperturbed_find_source() over all sources that are installed.
 */
#ifndef UNPERTURBED_SOURCES_H
#define UNPERTURBED_SOURCES_H

#include "unperturbed.h"

#include <sys/types.h>

/* The opened events of one thread (or, for an observer, of one process with all its threads). */
struct unperturbed_counters {
    const struct unperturbed_source *source;
    uint32_t options;
    uint32_t events;
    int event_set;                     /* PAPI's */
    int fd[UNPERTURBED_EVENTS];        /* descriptors, moved after `open`; -1 for none. perf_event's first leads */
    void *page[UNPERTURBED_EVENTS];    /* perf_event's: the page by which user space reads, or NULL */
    int64_t total[UNPERTURBED_EVENTS]; /* OPTION_RESET: counts before the last reset */
    uint64_t user_reads;               /* reads that needed no system call */
    uint32_t overflow;                 /* number of the event that ends intervals, from 1; 0 for none */
    void *state;                       /* the source's own */
};

struct unperturbed_source {
    /* Opens and starts the header's events on the calling thread (pid 0), or on process `pid`: from its next exec on,
     * with all threads it will make. Returns 0, or fills header->error and header->message and returns -1. May cost
     * milliseconds: it runs before main, or where a thread starts. */
    int (*open)(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);

    /* Reads all events into record->value, and where it can the time enabled and running; returns -1 when they could
     * not be read. Runs in a signal handler of the program: no allocation, no lock. Every record pays for it. */
    int (*read)(struct unperturbed_counters *counters, struct unperturbed_record *record);

    /* Ends the counting; at the end of a thread or of the program. */
    void (*close)(struct unperturbed_counters *counters);

    /* Gives the header's events their perf_event encoding, so that an observer reads them as one group. Returns 0; 1
     * when one of them has none; -1 with header->message when they are refused. NULL where there is no such thing. */
    int (*encode)(struct unperturbed_header *header);

    uint32_t traits; /* set of enum unperturbed_trait */
};

enum unperturbed_trait {
    TRAIT_CANCELLATION_POINT = 1, /* reading is a point at which the C library may cancel a thread */
};

/* Returns the source of a number in a record file; NULL when it was not installed when this was compiled. The build
 * writes this function. */
const struct unperturbed_source *unperturbed_find_source(uint32_t number);

/* The source that counts nothing: of runs without hardware events, and of simulated ones. */
extern const struct unperturbed_source unperturbed_nothing;

/* Finds the header's source and opens its events; parameters and result as for `open`. */
int unperturbed_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);

/* The same by another source than the header's, for events that have its encoding. */
int unperturbed_open_by(uint32_t source, struct unperturbed_counters *counters, struct unperturbed_header *header,
                        pid_t pid);

/* Has the header's events encoded for perf_event. Returns 1 when they are, 0 when their source must read them itself;
 * -1 with header->message when they are refused, or when one of them shall end intervals and only perf_event can. */
int unperturbed_encode(struct unperturbed_header *header);

static inline int unperturbed_read(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    return counters->source->read(counters, record);
}

static inline void unperturbed_close(struct unperturbed_counters *counters) { counters->source->close(counters); }

/* overflow.c: intervals that end each time an event has counted so many. */

/* Has the kernel send `signal` to thread `thread` whenever the event overflows; its siginfo names the event's
 * descriptor. Returns 0, or -1 with errno. */
int unperturbed_overflow_start(const struct unperturbed_counters *counters, pid_t thread, int signal);

/* Ends these signals; one may still be on its way. */
void unperturbed_overflow_stop(const struct unperturbed_counters *counters);

/* Empties the event's ring buffer, some 20 instructions a record; returns whether the kernel says in it that it stopped
 * the event for interrupting too often. Runs in a signal handler. */
int unperturbed_overflow_throttled(const struct unperturbed_counters *counters);

/* The kernel's probes of one process, with the threads that it makes from then on (children too with OPTION_CHILDREN);
 * one group beside the hardware's. */
struct unperturbed_probes {
    uint32_t count;
    int fd[UNPERTURBED_PROBES]; /* the first leads the group */
};

/* Opens the header's probes on the calling thread (pid 0), counting at once, or on process `pid`, from its next exec
 * on: some 10 ms each. Returns 0, or fills header->error and header->message and returns -1. */
int unperturbed_probes_open(struct unperturbed_probes *probes, struct unperturbed_header *header, pid_t pid);

/* Adds the hits since opening to the software metrics of a record: one read(2), about 1 us. Returns -1, and adds
 * nothing, when they could not be read. */
int unperturbed_probes_read(const struct unperturbed_probes *probes, const struct unperturbed_header *header,
                            int64_t *software);

#endif
