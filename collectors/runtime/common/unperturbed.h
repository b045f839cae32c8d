/* The contract between the harness, the runtime in the measured program, and the observer beside it.
 *
 * Record file: one a run, mapped shared: header, then `capacity` records of `record_bytes` each. The harness creates it
 * at its full size (a hole would be SIGBUS on a full disk) and zero-filled. `unperturbed.collectors.records.file` holds
 * the same layout for Python; a test compares them. Counter tables: what the instrumenting compiler puts into each
 * translation unit. Modules: where one executable's or library's counters lie.
 */
#ifndef UNPERTURBED_H
#define UNPERTURBED_H

#include <stdint.h>

#define UNPERTURBED_MAGIC "UNPREC04"
#define UNPERTURBED_ENVIRONMENT "UNPERTURBED_RECORD"
#define UNPERTURBED_LOG_ENVIRONMENT "UNPERTURBED_LOG" /* the simulator's log, without the process number */
#define UNPERTURBED_EVENTS 16
#define UNPERTURBED_PROBES 32

/* The largest page of the machine: counters that an observer shall see fill pages of their own. */
#if defined(__aarch64__) || defined(__powerpc64__)
#define UNPERTURBED_PAGE 65536
#else
#define UNPERTURBED_PAGE 4096
#endif

/* Of the header's source: those that this code knows itself. Any other is found by unperturbed_find_source(). */
enum { SOURCE_NONE = 0, SOURCE_CALLGRIND = 1, SOURCE_PERF = 2 };
enum unperturbed_clock {
    CLOCK_IS_MONOTONIC = 0,
    CLOCK_IS_PROCESS_CPU = 1,
    CLOCK_IS_THREAD_CPU = 2,
    CLOCK_IS_WORK = 3,
    CLOCK_IS_EVENT = 4
};
enum unperturbed_state { STATE_WAITING = 0, STATE_ATTACHED = 1, STATE_FINISHED = 2, STATE_FAILED = 3 };

/* What the harness asks for. */
enum unperturbed_option {
    OPTION_OUTSIDE = 1,  /* an observer process reads; the program only shares its counters */
    OPTION_THREADS = 2,  /* inside: a sampler for every thread, not for the main thread alone */
    OPTION_CHILDREN = 4, /* outside: count child processes too */
    /* Stop, read, reset, start at each record (003, section 3.1) instead of reading running counters. */
    OPTION_RESET = 8,
    /* Events take turns on the counters; each record holds every event's enabled and running time. */
    OPTION_MULTIPLEX = 16,
    OPTION_USER_READ = 32,       /* read counters in user space (rdpmc) where the kernel allows it */
    OPTION_ALTERNATE_STACK = 64, /* inside: handle the signal on the program's alternate stack, if it has one */
};

/* Which of the operating system's counters a record holds, in this order. */
enum unperturbed_os { OS_USAGE = 1, OS_SCHEDULER = 2, OS_IO = 4 };
#define UNPERTURBED_USAGE 8
#define UNPERTURBED_SCHEDULER 3
#define UNPERTURBED_IO 6

/* What happened, for the reader to judge. */
enum unperturbed_mark {
    MARK_EXEC = 1,             /* the program replaced itself: its counters ended there */
    MARK_SHARED_FORK = 2,      /* a child made by a bare system call counted into the program's shared counters */
    MARK_SIGNAL_TAKEN = 4,     /* the program installed a handler of its own for the sampler's signal */
    MARK_FROZEN = 8,           /* the kernel stopped counting (a set-uid program): task clock and CPU time differ */
    MARK_REAL_TIME = 16,       /* the observer ran with real-time priority */
    MARK_PINNED = 32,          /* the observer and the program had processors of their own */
    MARK_USER_READ = 64,       /* counters were read without a system call */
    MARK_THREADS = 128,        /* the program made threads */
    MARK_UNSHARED = 256,       /* a library's counters could not be shared with the observer */
    MARK_SIGNAL_BLOCKED = 512, /* the program blocked the sampler's signal */
    MARK_UNEVEN = 1024,    /* on the work clock: system calls that may wait took ticks away from the ends of quanta */
    MARK_THROTTLED = 2048, /* the kernel stopped an event that interrupted too often: counts are missing */
};

/* A hardware event as the source wants it: perf_event's type and configuration, or PAPI's name. */
struct unperturbed_event {
    uint32_t type;
    uint32_t flags; /* bit 0: count in the kernel too; bit 1: not in user space; bit 2: in the group of the last event
                       before it that has not this bit, even where events take turns */
    uint64_t config;
    uint64_t config1;
    uint64_t config2;
    char name[112];
};

/* A probe that is registered with the kernel, which counts its hits. */
struct unperturbed_probe {
    uint64_t tracepoint; /* its number there */
    uint32_t metric;     /* index of the software metric that the hits are added to */
    uint32_t reserved;
    char name[112];
};

struct unperturbed_header {
    char magic[8];
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint64_t capacity;    /* records */
    uint64_t interval_ns; /* on the work clock: quanta of the simulator; on an event's: its counts */
    uint32_t clock;
    uint32_t signal;
    uint32_t source;
    uint32_t events;      /* hardware events that are read; 0 for callgrind */
    uint32_t os;          /* set of enum unperturbed_os */
    uint32_t os_values;   /* how many values these are */
    uint32_t software;    /* software metrics */
    uint32_t options;     /* set of enum unperturbed_option */
    char program[64];     /* only a program of this name may claim the file; empty for any (it was linked in) */
    char papi[256];       /* PAPI library to try before the system's; empty for none */
    int32_t observer_cpu; /* processor of the observer; -1: choose, -2: do not pin */
    /* Below: written by the observer. */
    int32_t observer;    /* its process id */
    int32_t counters_fd; /* its descriptor of the shared counters */
    /* Of the library that was loaded, major and minor in the upper halves; by whoever opens the events. */
    uint32_t papi_version;
    /* That other processors took for it and others: function call interrupts during the run. */
    uint64_t interrupts;
    int64_t program_user_us; /* CPU time of the program and the children it waited for */
    int64_t program_system_us;
    int64_t program_wall_ns;
    /* Below: written by the runtime or the observer. */
    uint64_t owner;  /* process that claimed the file; 0 before */
    uint64_t taken;  /* records handed out; each is whole when it says so itself */
    uint64_t nested; /* ticks that came while one was being handled */
    uint64_t lost;   /* ticks after the file was full */
    uint64_t unread; /* records whose hardware counters could not be read */
    uint64_t state;
    int64_t error;    /* errno or the source's own code, when state is STATE_FAILED */
    uint64_t tables;  /* tables of software counters that registered */
    uint64_t threads; /* threads that were sampled */
    uint64_t marks;   /* set of enum unperturbed_mark */
    char message[240];
    struct unperturbed_event event[UNPERTURBED_EVENTS];
    uint32_t probes;         /* software metrics that the kernel counts */
    uint32_t interval_event; /* index of the event whose counts end intervals, on an event's clock */
    struct unperturbed_probe probe[UNPERTURBED_PROBES];
    /* By the observer, on an event's clock: what the kernel throttles by, as it was at the end of the run. */
    uint32_t sample_rate;  /* kernel.perf_event_max_sample_rate */
    uint32_t tick_ns;      /* the kernel's tick */
    uint64_t early_blocks; /* on the work clock: how many basic blocks the first interval is shorter than the others */
};

/* A record: cumulative values at one moment. Followed by `events` hardware values, when multiplexed enabled and running
 * time of each event in turn, `os_values` of the operating system and `software` values, all int64. */
struct unperturbed_record {
    uint64_t whole; /* position + 1, stored last: a record is whole or it is not there */
    uint32_t thread;
    uint32_t reserved;
    int64_t monotonic_ns;
    int64_t cpu_ns;
    uint64_t overruns;   /* ticks missed before this one */
    int64_t read_ns;     /* time that reading took: the values of a record are that far apart */
    uint64_t enabled_ns; /* from here on as a group of perf_event is read: without a copy */
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

/* A variable, or a part of one, whose value is a software metric: what the instrumenting compiler puts behind its
 * definition, in section `unperturbed_gauges`, with no code at all. */
struct unperturbed_gauge {
    const volatile void *address;
    uint32_t metric;
    uint16_t bytes; /* 1, 2, 4 or 8; 0 for one that says again what another says */
    uint16_t is_signed;
};

/* Pages of one executable or library that hold its counters and nothing else, and its gauges. */
struct unperturbed_module {
    struct unperturbed_module *next;
    char *first;
    char *last;
    uint64_t place;  /* of `first` in the shared counters */
    uint64_t shared; /* it is mapped there */
    struct unperturbed_gauge *gauges, *gauges_end;
};

/* A gauge as the observer sees it: where its value is in the program's own memory, and once the program has come to its
 * end, what it was. */
struct unperturbed_shared_gauge {
    uint64_t address;
    uint32_t metric; /* index + 1, stored last; 0 for none */
    uint16_t bytes;
    uint16_t is_signed;
    int64_t last;
};

/* The counters as the observer sees them, in memory that both map: which metric each slot belongs to, and the slots;
 * and where the gauges are. */
#define UNPERTURBED_SLOTS (1u << 20)
#define UNPERTURBED_GAUGES 8192 /* whole pages of any size */
#define UNPERTURBED_TOKEN 0x6761756765730a01u
struct unperturbed_counters_area {
    uint64_t used;   /* bytes of `slot` that are given to modules */
    uint64_t gauges; /* entries of `gauge` that are given away */
    uint64_t token;  /* address in the program of a word that holds UNPERTURBED_TOKEN: another image has none there */
    uint64_t ended;  /* `last` of every gauge holds the value at the program's end */
    char pad[UNPERTURBED_PAGE - 4 * sizeof(uint64_t)];
    struct unperturbed_shared_gauge gauge[UNPERTURBED_GAUGES];
    uint32_t metric[UNPERTURBED_SLOTS]; /* index + 1 of the software metric; 0 for none */
    uint64_t slot[UNPERTURBED_SLOTS];   /* on a page's bound */
};

void unperturbed_register(struct unperturbed_table *table);
void unperturbed_register_module(struct unperturbed_module *module, char **environment);

#endif
