/* Sources of counts, which all implement the same few functions for the samplers.
 *
 * Each source in `unperturbed.collectors.sources` that samplers read defines a `struct unperturbed_source` with the
 * name in `Source.c_name`. The build generates unperturbed_find_source() for all installed sources.
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
    int fd[UNPERTURBED_EVENTS];        /* descriptors, moved after `open`; -1: none. perf_event: the first leads */
    void *page[UNPERTURBED_EVENTS];    /* perf_event: the page for reading in user space, or NULL */
    int64_t total[UNPERTURBED_EVENTS]; /* OPTION_RESET: counts before the last reset */
    uint64_t user_reads;               /* number of readings without a system call */
    int32_t processor;                 /* of a cgroup's events: number of their processor, from 1; 0: any */
    uint32_t overflow;                 /* number of the event that ends intervals, from 1; 0: none */
    void *state;                       /* the source's own state */
};

struct unperturbed_source {
    /* Opens and starts the header's events on the calling thread (pid 0), or on process `pid` from its next exec on,
     * including all threads that it will create. Returns 0, or sets header->error and header->message and returns -1.
     * May take milliseconds: it runs before main, or when a thread starts. */
    int (*open)(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);

    /* Reads all events into record->value and, if available, the enabled and running time; returns -1 on failure. Runs
     * in a signal handler of the program, for every record: it must be fast, and must not allocate or lock. */
    int (*read)(struct unperturbed_counters *counters, struct unperturbed_record *record);

    /* Stops counting, at the end of a thread or of the program. */
    void (*close)(struct unperturbed_counters *counters);

    /* Sets the perf_event encoding of the header's events, so an observer can read them as one group. Returns 0; 1 if
     * an event has no encoding; -1 with header->message if they are refused. NULL if the source has no encodings. */
    int (*encode)(struct unperturbed_header *header);

    uint32_t traits; /* set of enum unperturbed_trait */

    /* In a forked child: gives up what `open` took in the parent, without stopping the parent's counting; the child then
     * opens the events for itself. NULL if there is nothing to do. */
    void (*forget)(struct unperturbed_counters *counters);
};

enum unperturbed_trait {
    TRAIT_CANCELLATION_POINT = 1, /* the read function is a cancellation point (pthreads(7)) */
};

/* Returns the source with a number in a record file; NULL if it was not installed at compile time. The build generates
 * this function. */
const struct unperturbed_source *unperturbed_find_source(uint32_t number);

/* The source that counts nothing, for runs without hardware events and for simulated runs. */
extern const struct unperturbed_source unperturbed_nothing;

/* Finds the header's source and opens its events; parameters and result as for `open`. */
int unperturbed_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid);

/* Like unperturbed_open, with a source other than the header's, for events that have its encoding. */
int unperturbed_open_by(uint32_t source, struct unperturbed_counters *counters, struct unperturbed_header *header,
                        pid_t pid);

/* Opens the header's events, which have perf_event's encoding, on a thread that runs (OPTION_ATTACHED), with the threads
 * that it will create; or, with `processor` from 1, on a processor for the cgroup whose descriptor is `pid`. */
int unperturbed_open_attached(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid,
                              int32_t processor);

/* Encodes the header's events for perf_event. Returns 1 on success; 0 if only their source can read them; -1 with
 * header->message if they are refused, or if one of them must end intervals, for which perf_event is required. */
int unperturbed_encode(struct unperturbed_header *header);

static inline int unperturbed_read(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    return counters->source->read(counters, record);
}

static inline void unperturbed_close(struct unperturbed_counters *counters) { counters->source->close(counters); }

/* overflow.c: intervals that end after a number of counts of an event. */

/* Makes the kernel send `signal` to thread `thread` whenever the event overflows; its siginfo has the event's
 * descriptor. Returns 0, or -1 with errno. */
int unperturbed_overflow_start(const struct unperturbed_counters *counters, pid_t thread, int signal);

/* Stops these signals; one may still be pending. */
void unperturbed_overflow_stop(const struct unperturbed_counters *counters);

/* Empties the event's ring buffer, about 20 instructions per record; returns whether it contains a throttling record.
 * Runs in a signal handler. */
int unperturbed_overflow_throttled(const struct unperturbed_counters *counters);

/* The kernel probes of a process and of threads that it creates later (and children, with OPTION_CHILDREN): one group,
 * separate from the hardware events'. */
struct unperturbed_probes {
    uint32_t count;
    int fd[UNPERTURBED_PROBES]; /* the first leads the group */
};

/* Opens the header's probes on the calling thread (pid 0), counting immediately, or on process `pid`, counting from its
 * next exec on; about 10 ms each. Returns 0, or sets header->error and header->message and returns -1. */
int unperturbed_probes_open(struct unperturbed_probes *probes, struct unperturbed_header *header, pid_t pid);

/* In a forked child: closes the parent's probes, which go on counting for the parent. */
void unperturbed_probes_close(struct unperturbed_probes *probes);

/* Adds the hits since opening to the software metrics of a record: one read(2), about 1 us. If the hits cannot be read,
 * returns -1 and adds nothing. */
int unperturbed_probes_read(const struct unperturbed_probes *probes, const struct unperturbed_header *header,
                            int64_t *software);

#endif
