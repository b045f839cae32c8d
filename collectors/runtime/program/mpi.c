/* LD_PRELOAD library for ranks of MPI: time and number of the calls that wait for another rank.
 *
 * A function here has the name of one of MPI's, and calls the next function of that name, as MPI's profiling interface
 * foresees. It passes on twelve words, more than any of these functions takes, and so needs no mpi.h: Open MPI and MPICH
 * agree on names alone. All arguments are pointers or integers.
 *
 * A rank that waits spins, for as long as the other needs: under callgrind, its instructions would be different in every
 * run. They are left out of the simulated counts, as are those of MPI's start and end.
 */
#define _GNU_SOURCE
#include "../common/unperturbed.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif
#endif
#ifndef CALLGRIND_TOGGLE_COLLECT
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#endif

typedef long word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word, word);

__attribute__((visibility("default"))) struct unperturbed_waits unperturbed_waits;

static __thread int depth; /* MPI may call its own functions */
static __thread int is_main;

__attribute__((constructor)) static void begin(void) { is_main = 1; }

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* RTLD_NEXT does not search libraries that were opened with RTLD_LOCAL, as those of Python modules. */
static function look_up(const char *name, const void *own)
{
    void *found = dlsym(RTLD_NEXT, name);
    for (const struct link_map *map = _r_debug.r_map; map && !found; map = map->l_next) {
        void *library = map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *there = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
        found = there == own ? NULL : there;
    }
    return (function)found;
}

static word missing(const char *name)
{
    fprintf(stderr, "%s: no loaded library defines it\n", name);
    _exit(127);
}

static int64_t enter(int waits)
{
    if (depth++)
        return 0;
    int64_t since = waits ? now_ns() : 0;
    if (is_main) {
        unperturbed_waits.since = since;
        unperturbed_waits.apart = 1;
    }
    CALLGRIND_TOGGLE_COLLECT;
    return since;
}

static void leave(int64_t since)
{
    if (--depth)
        return;
    CALLGRIND_TOGGLE_COLLECT;
    if (is_main)
        unperturbed_waits.apart = 0;
    if (!since)
        return;
    int64_t passed = now_ns() - since;
    if (is_main) /* before the sum: a record in between must not have the call twice */
        unperturbed_waits.since = 0;
    __atomic_fetch_add(&unperturbed_waits.ns, passed, __ATOMIC_RELAXED);
    __atomic_fetch_add(&unperturbed_waits.calls, 1, __ATOMIC_RELAXED);
}

#define DEFINED(name, waits, otherwise) \
    word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l); \
    __attribute__((visibility("default"))) word name(word a, word b, word c, word d, word e, word f, word g, word h, \
                                                     word i, word j, word k, word l) \
    { \
        static function next; \
        static int sought; \
        if (!sought) { \
            next = look_up(#name, (const void *)name); \
            sought = 1; \
        } \
        if (!next) \
            return otherwise; \
        int64_t since = enter(waits); \
        word result = next(a, b, c, d, e, f, g, h, i, j, k, l); \
        leave(since); \
        return result; \
    }
#define NAMED(name, waits) DEFINED(name, waits, missing(#name))
/* In C, and in Fortran as GNU, LLVM and Intel name it. */
#define CALL(name, fortran, waits) NAMED(MPI_##name, waits) NAMED(mpi_##fortran##_, waits)
#define WAITS(name, fortran) CALL(name, fortran, 1)
/* MPI 4 has a second function for counts of 64 bits, which mpi4py calls wherever it is there. Where the loaded library
 * has none, the definition here makes it seem to be there: the first function then serves, for counts of 32 bits. */
#define COUNTS(name, fortran, count, other) \
    WAITS(name, fortran) \
    DEFINED(MPI_##name##_c, 1, \
            (int)count == count && (int)other == other ? MPI_##name(a, b, c, d, e, f, g, h, i, j, k, l) \
                                                       : missing("MPI_" #name "_c"))

CALL(Init, init, 0)
CALL(Init_thread, init_thread, 0)
CALL(Finalize, finalize, 0)
COUNTS(Send, send, b, b)
COUNTS(Ssend, ssend, b, b)
COUNTS(Rsend, rsend, b, b)
COUNTS(Bsend, bsend, b, b)
COUNTS(Recv, recv, b, b)
COUNTS(Mrecv, mrecv, b, b)
WAITS(Probe, probe)
WAITS(Mprobe, mprobe)
COUNTS(Sendrecv, sendrecv, b, g)
COUNTS(Sendrecv_replace, sendrecv_replace, b, b)
WAITS(Wait, wait)
WAITS(Waitall, waitall)
WAITS(Waitany, waitany)
WAITS(Waitsome, waitsome)
WAITS(Barrier, barrier)
COUNTS(Bcast, bcast, b, b)
COUNTS(Gather, gather, b, e)
WAITS(Gatherv, gatherv)
COUNTS(Scatter, scatter, b, e)
WAITS(Scatterv, scatterv)
COUNTS(Allgather, allgather, b, e)
WAITS(Allgatherv, allgatherv)
COUNTS(Alltoall, alltoall, b, e)
WAITS(Alltoallv, alltoallv)
WAITS(Alltoallw, alltoallw)
COUNTS(Reduce, reduce, c, c)
COUNTS(Allreduce, allreduce, c, c)
WAITS(Reduce_scatter, reduce_scatter)
COUNTS(Reduce_scatter_block, reduce_scatter_block, c, c)
COUNTS(Scan, scan, c, c)
COUNTS(Exscan, exscan, c, c)
COUNTS(Neighbor_allgather, neighbor_allgather, b, e)
WAITS(Neighbor_allgatherv, neighbor_allgatherv)
COUNTS(Neighbor_alltoall, neighbor_alltoall, b, e)
WAITS(Neighbor_alltoallv, neighbor_alltoallv)
WAITS(Neighbor_alltoallw, neighbor_alltoallw)
WAITS(Win_fence, win_fence)
WAITS(Win_wait, win_wait)
WAITS(Win_complete, win_complete)
WAITS(Win_lock, win_lock)
WAITS(Win_unlock, win_unlock)
WAITS(Win_flush, win_flush)
WAITS(Comm_dup, comm_dup)
WAITS(Comm_split, comm_split)
