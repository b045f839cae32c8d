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
uint64_t unperturbed_tables(void);
void unperturbed_share_after_fork(void); /* in the child, if an observer reads */
int unperturbed_counts_elsewhere(void);  /* whether this is a forked child that still uses its parent's shared pages */

/* intervals.c: prepares for intervals that the program's own events end; -1 if this machine cannot have them. */
int unperturbed_prepare_intervals(void);

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
void unperturbed_end_interval(void);                         /* called by the sites, through intervals.c */
int unperturbed_samples_threads(void);                       /* whether a thread created now gets a sampler */
struct unperturbed_sampler *unperturbed_sampler_start(void); /* NULL on failure: the header has the reason */
void unperturbed_sampler_stop(struct unperturbed_sampler *sampler);

#endif
