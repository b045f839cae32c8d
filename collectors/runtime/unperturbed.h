/* The record file: what the harness writes before a run, and what the runtime in the measured program adds to it.
 *
 * One file a run, mapped shared by the program: header, then `capacity` records of `record_bytes` each. The harness creates it at its full size
 * (a hole would be SIGBUS on a full disk) and zero-filled. `unperturbed.collectors.record` holds the same layout for Python; a test compares them.
 */
#ifndef UNPERTURBED_H
#define UNPERTURBED_H

#include <stdint.h>

#define UNPERTURBED_MAGIC "UNPREC01"
#define UNPERTURBED_ENVIRONMENT "UNPERTURBED_RECORD"
#define UNPERTURBED_EVENTS 16
#define UNPERTURBED_OS 8

enum unperturbed_source { SOURCE_NONE = 0, SOURCE_CALLGRIND = 1, SOURCE_PERF = 2, SOURCE_PAPI = 3 };
enum unperturbed_clock { CLOCK_IS_MONOTONIC = 0, CLOCK_IS_PROCESS_CPU = 1 };
enum unperturbed_state { STATE_WAITING = 0, STATE_ATTACHED = 1, STATE_FINISHED = 2, STATE_FAILED = 3 };

/* A hardware event as the source wants it: perf_event's type and configuration, or PAPI's name. */
struct unperturbed_event {
    uint32_t type;
    uint32_t flags; /* bit 0: count in the kernel too */
    uint64_t config;
    char name[112];
};

struct unperturbed_header {
    char magic[8];
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint64_t capacity; /* records */
    uint64_t interval_ns;
    uint32_t clock;
    uint32_t signal;
    uint32_t source;
    uint32_t events;   /* hardware events the runtime reads itself; 0 for callgrind */
    uint32_t os;       /* 0 or UNPERTURBED_OS */
    uint32_t software; /* software metrics */
    char program[64];  /* only a program of this name may claim the file; empty for any (it was linked in) */
    /* Below: written by the runtime. */
    uint64_t owner;     /* process that claimed the file; 0 before */
    uint64_t committed; /* records that are whole, stored last */
    uint64_t nested;    /* ticks that came while one was being handled */
    uint64_t lost;      /* ticks after the file was full */
    uint64_t unread;    /* records whose hardware counters could not be read */
    uint64_t state;
    int64_t error;      /* errno or the source's own code, when state is STATE_FAILED */
    uint64_t libraries; /* tables of software counters that registered */
    char message[240];
    struct unperturbed_event event[UNPERTURBED_EVENTS];
};

/* A record: cumulative values at one moment. Followed by `events` hardware, `os` operating-system and `software` values, all int64. */
struct unperturbed_record {
    uint64_t sequence;
    int64_t monotonic_ns;
    int64_t cpu_ns;
    uint64_t overruns; /* of this tick alone */
    uint64_t enabled_ns;
    uint64_t running_ns;
    int64_t value[];
};

/* What the instrumenting compiler puts into each translation unit that holds events, and registers before main. */
struct unperturbed_table {
    struct unperturbed_table *next;
    uint64_t *counts;       /* one a site */
    const uint32_t *metric; /* index of each site's software metric */
    uint32_t sites;
    uint32_t version; /* 1 */
};

void unperturbed_register(struct unperturbed_table *table);

#endif
