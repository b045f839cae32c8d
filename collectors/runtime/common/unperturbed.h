/* The interface of the harness, the runtime in the measured program, and the observer.
 *
 * Record file: one per run, mapped shared: a header, then `capacity` records of `record_bytes` each. The harness
 * creates the file at full size (a hole would cause SIGBUS on a full disk), zero-filled. With OPTION_CHILDREN, each
 * further process that the inside sampler finds creates a file of its own, `<file>.<pid>.<image>`, which grows.
 * `unperturbed.collectors.records.file` has the same layout for Python; a test compares them. Counter tables: the
 * instrumenting compiler puts one into each translation unit. Modules: the location of the counters of an executable or
 * library.
 */
#ifndef UNPERTURBED_H
#define UNPERTURBED_H

#include <stdint.h>

#define UNPERTURBED_MAGIC "UNPREC06"
#define UNPERTURBED_ENVIRONMENT "UNPERTURBED_RECORD"
#define UNPERTURBED_LOG_ENVIRONMENT "UNPERTURBED_LOG" /* the simulator's log, without the process id */
#define UNPERTURBED_EVENTS 16
#define UNPERTURBED_PROBES 32

/* The machine's largest page size: counters that are shared with an observer fill whole pages. */
#if defined(__aarch64__) || defined(__powerpc64__)
#define UNPERTURBED_PAGE 65536
#else
#define UNPERTURBED_PAGE 4096
#endif

/* Numbers of the sources that this code knows; unperturbed_find_source() finds the others. */
enum { SOURCE_NONE = 0, SOURCE_CALLGRIND = 1, SOURCE_PERF = 2 };
enum unperturbed_clock {
    CLOCK_IS_MONOTONIC = 0,
    CLOCK_IS_PROCESS_CPU = 1,
    CLOCK_IS_THREAD_CPU = 2,
    CLOCK_IS_WORK = 3,
    CLOCK_IS_EVENT = 4,
    CLOCK_IS_PROGRAM = 5 /* the program's own events: sites of a software metric count down */
};
enum unperturbed_state { STATE_WAITING = 0, STATE_ATTACHED = 1, STATE_FINISHED = 2, STATE_FAILED = 3 };

/* Options that the harness sets. */
enum unperturbed_option {
    OPTION_OUTSIDE = 1,  /* an observer process reads; the program only shares its counters */
    OPTION_THREADS = 2,  /* inside: a sampler for every thread, not only for the main thread */
    OPTION_CHILDREN = 4, /* count child processes too: outside in the same records, inside in files of their own */
    /* Stop, read, reset, start at each record (003, section 3.1) instead of reading running counters. */
    OPTION_RESET = 8,
    /* Events are multiplexed; each record has every event's enabled and running time. */
    OPTION_MULTIPLEX = 16,
    OPTION_USER_READ = 32,       /* read counters in user space (rdpmc) where the kernel allows it */
    OPTION_ALTERNATE_STACK = 64, /* inside: handle the signal on the program's alternate stack, if it has one */
    OPTION_ATTACHED = 128,       /* outside: the observed processes run already */
    OPTION_EACH = 256,           /* inside: threads one by one; software counters are variables of each thread */
};

/* Groups of operating-system counters in a record, in this order. */
enum unperturbed_os { OS_USAGE = 1, OS_SCHEDULER = 2, OS_IO = 4, OS_WAITS = 8 };
#define UNPERTURBED_USAGE 8
#define UNPERTURBED_SCHEDULER 3
#define UNPERTURBED_IO 6
#define UNPERTURBED_WAITS 2

/* Conditions noticed during the run; the reader of the file judges them. */
enum unperturbed_mark {
    MARK_EXEC = 1,             /* the program replaced itself: its counters ended there */
    MARK_SHARED_FORK = 2,      /* a child created by a direct system call incremented the shared counters */
    MARK_SIGNAL_TAKEN = 4,     /* the program installed its own handler for the sampler's signal */
    MARK_FROZEN = 8,           /* the kernel stopped counting (a set-uid program): task clock and CPU time differ */
    MARK_REAL_TIME = 16,       /* the observer ran with real-time priority */
    MARK_PINNED = 32,          /* the observer and the program had separate processors */
    MARK_USER_READ = 64,       /* counters were read without a system call */
    MARK_THREADS = 128,        /* the program created threads */
    MARK_UNSHARED = 256,       /* a library's counters could not be shared with the observer */
    MARK_SIGNAL_BLOCKED = 512, /* the program blocked the sampler's signal */
    MARK_UNEVEN = 1024,    /* on the work clock: system calls that may wait took ticks away from the ends of quanta */
    MARK_THROTTLED = 2048, /* the kernel stopped an event that interrupted too often: counts are missing */
    MARK_SEPARATE = 4096,  /* on the program's clock: a library counts down a variable of its own */
    MARK_UNCOUNTED = 8192, /* with OPTION_CHILDREN: a process could not create its record file */
    MARK_UNNAMED = 16384,  /* with OPTION_EACH: the role of a thread could not be written */
    MARK_NODES = 32768,    /* the ranks of MPI run on several nodes, each with a clock and process numbers of its own */
    MARK_LEFT = 65536,     /* the program left a region by longjmp(3), or ran it on several stacks */
    MARK_CROSSINGS = 131072, /* the simulated program entered regions too often */
};

/* A hardware event, encoded for its source: perf_event's type and configuration, or PAPI's name. */
struct unperturbed_event {
    uint32_t type;
    uint32_t flags; /* bit 0: count in the kernel too; bit 1: not in user space; bit 2: in the group of the last
                       previous event without this bit, even if multiplexed */
    uint64_t config;
    uint64_t config1;
    uint64_t config2;
    char name[112];
};

/* A probe registered with the kernel, which counts its hits. */
/* Software metrics with these numbers can count hardware events within a function. */
#define UNPERTURBED_REGIONS 63

struct unperturbed_probe {
    uint64_t tracepoint; /* its tracepoint id */
    uint32_t metric;     /* index of the software metric that the hits are added to */
    uint32_t reserved;
    char name[112];
};

struct unperturbed_header {
    char magic[8];
    uint32_t header_bytes;
    uint32_t record_bytes;
    uint64_t capacity;    /* records for which the file has room */
    uint64_t interval_ns; /* on the work clock: in quanta of the simulator; on an event's or the program's: in counts */
    uint32_t clock;
    uint32_t signal;
    uint32_t source;
    uint32_t events;      /* number of hardware events to read; 0 for callgrind */
    uint32_t os;          /* set of enum unperturbed_os */
    uint32_t os_values;   /* number of values in these groups */
    uint32_t software;    /* number of software metrics */
    uint32_t options;     /* set of enum unperturbed_option */
    char program[64];     /* only a program of this name may claim the file; empty: any (the runtime is linked in) */
    char papi[256];       /* PAPI library to try before the system's; may be empty */
    int32_t observer_cpu; /* processor of the observer; -1: choose, -2: do not pin */
    /* Below: written by the observer. */
    int32_t observer;    /* its process id */
    int32_t counters_fd; /* its descriptor of the shared counters */
    /* Version of the loaded library: major and minor in the two upper bytes; written by the opener of the events. */
    uint32_t papi_version;
    /* Function call interrupts on other processors during the run, including those not caused by the observer. */
    uint64_t interrupts;
    int64_t program_user_us; /* CPU time of the program and the children it waited for; with OPTION_CHILDREN, of all */
    int64_t program_system_us;
    int64_t program_wall_ns;
    /* Below: written by the runtime or the observer. */
    uint64_t owner;  /* id of the process that claimed the file; 0 before that */
    uint64_t taken;  /* number of records handed out; each record shows whether it is complete */
    uint64_t nested; /* ticks during the handling of another tick */
    uint64_t lost;   /* ticks after the file was full */
    uint64_t unread; /* records whose hardware counters could not be read */
    uint64_t state;
    int64_t error;    /* errno or the source's error code, if state is STATE_FAILED */
    uint64_t tables;  /* tables of software counters that registered */
    uint64_t threads; /* threads that were sampled */
    uint64_t marks;   /* set of enum unperturbed_mark */
    char message[240];
    struct unperturbed_event event[UNPERTURBED_EVENTS];
    uint32_t probes;         /* number of software metrics that the kernel counts */
    uint32_t interval_event; /* index of the event whose counts end intervals, on an event's clock */
    struct unperturbed_probe probe[UNPERTURBED_PROBES];
    /* Written by the observer, on an event's clock: the kernel's throttling parameters at the end of the run. */
    uint32_t sample_rate;    /* kernel.perf_event_max_sample_rate */
    uint32_t tick_ns;        /* the kernel's tick */
    uint64_t early_blocks;   /* on the work clock: number of basic blocks by which the first interval is shorter */
    uint64_t quantum_blocks; /* on the work clock: number of basic blocks of the simulator's quantum */
    uint64_t limit;          /* records up to which the file may grow */
    uint64_t parent;         /* process that created the one that claimed the file */
    char image[64];          /* file name of its executable */
    int64_t cpu_ns;          /* CPU time of its threads at its end; 0 if it ended without the runtime */
    uint32_t rank;           /* its MPI rank + 1; 0 if it is no rank's */
    uint32_t ranks;          /* number of ranks; 0 if unknown */
    uint32_t regions;        /* number of software metrics that count hardware events within a function */
    uint32_t region[UNPERTURBED_REGIONS]; /* for each software metric that does: the index of its event + 1, or 1 */
    uint64_t random[2];                   /* the kernel's random bytes (AT_RANDOM) of the image that claimed the file */
};

/* A record: cumulative values at one time. It is followed by `events` hardware values; if multiplexed, by enabled and
 * running time of each event; by `os_values` operating-system values; and by `software` values; all int64. */
struct unperturbed_record {
    uint64_t whole; /* position + 1, stored last: marks the record as complete */
    uint32_t thread;
    uint32_t tick; /* with OPTION_EACH: position + 1 of the main thread's record at whose tick this one was written */
    int64_t monotonic_ns;
    int64_t cpu_ns;
    uint64_t overruns;   /* ticks missed before this one */
    int64_t read_ns;     /* duration of the reading: a record's values may be this far apart */
    uint64_t enabled_ns; /* from here on in the layout of a perf_event group's reading, which needs no copy */
    uint64_t running_ns;
    int64_t value[];
};

/* Counter table: the instrumenting compiler puts one into each translation unit with sites, registered before main. */
struct unperturbed_table {
    struct unperturbed_table *next;
    uint64_t *counts;       /* one per site */
    const uint32_t *metric; /* index of each site's software metric */
    uint32_t sites;
    uint32_t version; /* 1; 2: the counts are variables of each thread, at the same distance from its thread pointer */
};

/* A gauge: a variable, or a part of one, whose value is a software metric. The instrumenting compiler puts this
 * structure after the variable's definition, in section `unperturbed_gauges`, without any code. */
struct unperturbed_gauge {
    const volatile void *address;
    uint32_t metric;
    uint16_t bytes; /* 1, 2, 4 or 8; 0 for a duplicate */
    uint16_t is_signed;
};

/* The pages of an executable or library that contain only its counters, and its gauges. */
struct unperturbed_module {
    struct unperturbed_module *next;
    char *first;
    char *last;
    uint64_t place;  /* offset of `first` in the shared counters */
    uint64_t shared; /* whether the pages are mapped there */
    struct unperturbed_gauge *gauges, *gauges_end;
};

/* A gauge for the observer: the address of its value in the program's memory, and its last value once the program has
 * ended. */
struct unperturbed_shared_gauge {
    uint64_t address;
    uint32_t metric; /* index + 1, stored last; 0 for none */
    uint16_t bytes;
    uint16_t is_signed;
    int64_t last;
};

/* The memory that the program and the observer share: the counters (slots), the metric of each slot, and the addresses
 * of the gauges. */
#define UNPERTURBED_SLOTS (1u << 20)
#define UNPERTURBED_GAUGES 8192 /* whole pages of any size */
#define UNPERTURBED_TOKEN 0x6761756765730a01u
struct unperturbed_counters_area {
    uint64_t used;   /* bytes of `slot` that are assigned to modules */
    uint64_t gauges; /* number of used entries of `gauge` */
    uint64_t token;  /* address of a word with value UNPERTURBED_TOKEN in the program: identifies the image */
    uint64_t ended;  /* whether `last` of every gauge is its value at the program's end */
    char pad[UNPERTURBED_PAGE - 4 * sizeof(uint64_t)];
    struct unperturbed_shared_gauge gauge[UNPERTURBED_GAUGES];
    uint32_t metric[UNPERTURBED_SLOTS]; /* index + 1 of the software metric; 0 for none */
    uint64_t slot[UNPERTURBED_SLOTS];   /* aligned to a page */
};

/* On the program's clock: the number of events until the thread's interval ends. Each translation unit with a site of
 * the metric that ends intervals defines it as a weak symbol, so that a program without the runtime has it too. The
 * site counts down, and calls the function below at 0. Without a sampler, a thread has the initial value, which no
 * program counts down. */
#define UNPERTURBED_NEVER INT64_MAX
extern __thread long long unperturbed_remaining __attribute__((tls_model("initial-exec")));
void unperturbed_interval_ends(void);                      /* keeps all registers, but not the flags */
void unperturbed_register_countdown(long long *remaining); /* whose address in this thread must be the runtime's */

/* What mpi.c, a library of its own, counts in this process: calls of MPI that wait for another rank. */
struct unperturbed_waits {
    int64_t calls; /* by all threads */
    int64_t ns;    /* time in calls that have returned */
    int64_t since; /* start of the main thread's current call; 0 if it is in none */
    int64_t apart; /* whether the main thread is in such a call, or in MPI's start or end */
};

/* Where a region's sites call: at its entry with code 2 × number of the metric, where it is left with 1 more. Keeps all
 * registers, but not the flags. NULL on machines without regions. */
#define UNPERTURBED_REGION_CODES 126
typedef void (*unperturbed_way)(void);
unperturbed_way unperturbed_region_entry(uint32_t code) __attribute__((visibility("default")));

void unperturbed_register(struct unperturbed_table *table);
void unperturbed_register_module(struct unperturbed_module *module, char **environment);

#endif
