/* Declarations shared by the runtime's files. Everything runs in the measured program, except the parts of os.c and
 * record.c that the observer uses. */
#ifndef UNPERTURBED_RUNTIME_H
#define UNPERTURBED_RUNTIME_H

#include "unperturbed.h"

#include <stddef.h>
#include <time.h>

/* record.c: the record file of this process, or NULL. */
extern struct unperturbed_header *unperturbed_header;
int unperturbed_map(const char *path);
int unperturbed_claim(char **environment);
int unperturbed_is_counted(void);        /* whether the run counts this process */
int unperturbed_claim_in_child(void);    /* after a fork: a record file for the child; outside, the parent's */
int unperturbed_grow(uint64_t position); /* makes room for a record; -1 if the file is full */
void unperturbed_mark(uint64_t mark);
int unperturbed_fail(const char *what); /* writes errno and what failed to the header */
#define UNPERTURBED_PATH 4128
const char *unperturbed_own_path(void); /* of this process's record file */

/* Returns the next free record, and sets its number; NULL if the file is full. */
static inline struct unperturbed_record *unperturbed_take(struct unperturbed_header *header, uint64_t *position)
{
    *position = __atomic_fetch_add(&header->taken, 1, __ATOMIC_RELAXED);
    if (*position < header->capacity || (header->limit > header->capacity && unperturbed_grow(*position) == 0))
        return (struct unperturbed_record *)((char *)header + header->header_bytes + *position * header->record_bytes);
    __atomic_fetch_sub(&header->taken, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&header->lost, 1, __ATOMIC_RELAXED);
    return NULL;
}

static inline void unperturbed_commit(struct unperturbed_record *record, uint64_t position)
{
    __atomic_store_n(&record->whole, position + 1, __ATOMIC_RELEASE);
}

/* For code that the handler rarely runs: keeps it out of the common path, which every record executes. */
#define APART __attribute__((noinline, cold))

static inline int64_t unperturbed_nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Returns the value of a gauge, aligned or not. */
static inline int64_t unperturbed_gauge_value(const volatile void *at, uint32_t bytes, uint32_t is_signed)
{
    typedef uint16_t loose16 __attribute__((aligned(1), may_alias));
    typedef uint32_t loose32 __attribute__((aligned(1), may_alias));
    typedef uint64_t loose64 __attribute__((aligned(1), may_alias));
    switch (bytes) {
    case 1:
        return is_signed ? (int64_t)*(const volatile int8_t *)at : (int64_t)*(const volatile uint8_t *)at;
    case 2:
        return is_signed ? (int64_t)(int16_t)*(const volatile loose16 *)at : (int64_t)*(const volatile loose16 *)at;
    case 4:
        return is_signed ? (int64_t)(int32_t)*(const volatile loose32 *)at : (int64_t)*(const volatile loose32 *)at;
    default:
        return (int64_t)*(const volatile loose64 *)at;
    }
}

/* software.c: sums of all counters by metric (about 30 ns for 64 of them), and of the gauges' values. */
void unperturbed_read_software(int64_t *value, uint32_t software);
void unperturbed_read_software_of(const char *thread_pointer, int64_t *value, uint32_t software);
uint64_t unperturbed_tables(void);
void unperturbed_share_after_fork(void); /* in the child, if an observer reads */
int unperturbed_counts_elsewhere(void);  /* whether this is a forked child that still uses its parent's shared pages */

/* intervals.c: prepares for intervals that the program's own events end; -1 if this machine cannot have them. */
int unperturbed_prepare_intervals(void);

/* sampler.c: the program enters or leaves a region; called by intervals.c, with the site's stack pointer. */
void unperturbed_cross_region(uint64_t code, const char *stack) __attribute__((visibility("hidden")));
/* sampler.c: the program jumps out of functions, to this stack pointer and instruction; called by jumps.c. */
void unperturbed_jump(const char *stack, const char *place) __attribute__((visibility("hidden")));

/* os.c: operating-system counters of this process (pid 0) or another. Opening is expensive; reading takes one system
 * call per group, and fails instead of returning zeros. */
struct unperturbed_os_files {
    int stat, status, scheduler, io;
    const struct unperturbed_waits *waits; /* NULL if mpi.c is not loaded */
};
int unperturbed_os_open(struct unperturbed_os_files *files, uint32_t groups, int pid);
void unperturbed_os_close(struct unperturbed_os_files *files);
int unperturbed_os_read(const struct unperturbed_os_files *files, uint32_t groups, int pid, int64_t *value);

/* sampler.c: above 0 while this thread executes the runtime, or a library for it (PAPI allocates memory and opens files):
 * library calls are then not the program's, and an interposer does not count them. Both define this weak symbol. */
extern __thread int unperturbed_apart __attribute__((tls_model("initial-exec")));

/* sampler.c: the sampler of one thread, created and ended by that thread. */
struct unperturbed_sampler;
/* Called by the sites, through intervals.c; `stack`: the site's stack pointer, on machines with regions. */
void unperturbed_end_interval(uint64_t unused, const char *stack);
int unperturbed_samples_threads(void); /* whether a thread created now gets a sampler */
struct unperturbed_birth;
/* NULL on failure: the header has the reason. `birth`: NULL for the main thread. */
struct unperturbed_sampler *unperturbed_sampler_start(const struct unperturbed_birth *birth);
void unperturbed_sampler_stop(struct unperturbed_sampler *sampler);

/* each.c: threads one by one. Who created a thread and what it runs, noted by its creator; and the running threads,
 * for which the main thread's tick writes records under the simulator. */
struct unperturbed_birth {
    const void *start, *argument;
    uint32_t creator; /* number of the thread that created it */
    uint64_t order;   /* number of threads created before, by all threads */
};
struct unperturbed_member {
    struct unperturbed_member *next;
    const char *thread_pointer;
    uint32_t number; /* of the thread in the record file; 0 is the main thread */
    int thread_id;
    int awaited; /* 1: the main thread waits for the last record; 2: it is written */
};
int unperturbed_counts_each(void);
void unperturbed_conceive(struct unperturbed_birth *birth, const void *start, const void *argument);
void unperturbed_write_birth(uint32_t number, int thread_id, const struct unperturbed_birth *birth);
void unperturbed_write_end(uint32_t number);
void unperturbed_join(struct unperturbed_member *member, int thread_id);
void unperturbed_leave(struct unperturbed_member *member);
void unperturbed_forget_members(void); /* in a forked child */
void unperturbed_await_members(int signal);
int unperturbed_is_awaited(struct unperturbed_member *member);
void unperturbed_is_recorded(struct unperturbed_member *member);
void unperturbed_record_members(const struct unperturbed_record *tick, uint64_t tick_position);
/* sampler.c: between them, the simulator does not count this thread's instructions. Pairs may be nested. */
void unperturbed_pause(void);
void unperturbed_resume(void);

/* The address from which a thread's own variables are at fixed distances; NULL where counters are never a thread's. */
static inline const char *unperturbed_thread_pointer(void)
{
    const char *pointer = NULL;
#if defined(__x86_64__) && defined(__LP64__)
    __asm__("{movq %%fs:0, %0|mov %0, fs:0}" : "=r"(pointer));
#endif
    return pointer;
}

#endif
