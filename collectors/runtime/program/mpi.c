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
static function find(const char *name, const void *own)
{
    void *found = dlsym(RTLD_NEXT, name);
    for (const struct link_map *map = _r_debug.r_map; map && !found; map = map->l_next) {
        void *library = map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *there = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
        found = there == own ? NULL : there;
    }
    if (!found) {
        fprintf(stderr, "%s: no loaded library defines it\n", name);
        _exit(127);
    }
    return (function)found;
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

#define NAMED(name, waits) \
    word name(word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k, word l); \
    __attribute__((visibility("default"))) word name(word a, word b, word c, word d, word e, word f, word g, word h, \
                                                     word i, word j, word k, word l) \
    { \
        static function next; \
        if (!next) \
            next = find(#name, (const void *)name); \
        int64_t since = enter(waits); \
        word result = next(a, b, c, d, e, f, g, h, i, j, k, l); \
        leave(since); \
        return result; \
    }
/* In C, and in Fortran as GNU, LLVM and Intel name it. */
#define CALL(name, fortran, waits) NAMED(MPI_##name, waits) NAMED(mpi_##fortran##_, waits)
#define WAITS(name, fortran) CALL(name, fortran, 1)

CALL(Init, init, 0)
CALL(Init_thread, init_thread, 0)
CALL(Finalize, finalize, 0)
WAITS(Send, send)
WAITS(Ssend, ssend)
WAITS(Rsend, rsend)
WAITS(Bsend, bsend)
WAITS(Recv, recv)
WAITS(Mrecv, mrecv)
WAITS(Probe, probe)
WAITS(Mprobe, mprobe)
WAITS(Sendrecv, sendrecv)
WAITS(Sendrecv_replace, sendrecv_replace)
WAITS(Wait, wait)
WAITS(Waitall, waitall)
WAITS(Waitany, waitany)
WAITS(Waitsome, waitsome)
WAITS(Barrier, barrier)
WAITS(Bcast, bcast)
WAITS(Gather, gather)
WAITS(Gatherv, gatherv)
WAITS(Scatter, scatter)
WAITS(Scatterv, scatterv)
WAITS(Allgather, allgather)
WAITS(Allgatherv, allgatherv)
WAITS(Alltoall, alltoall)
WAITS(Alltoallv, alltoallv)
WAITS(Alltoallw, alltoallw)
WAITS(Reduce, reduce)
WAITS(Allreduce, allreduce)
WAITS(Reduce_scatter, reduce_scatter)
WAITS(Reduce_scatter_block, reduce_scatter_block)
WAITS(Scan, scan)
WAITS(Exscan, exscan)
WAITS(Neighbor_allgather, neighbor_allgather)
WAITS(Neighbor_allgatherv, neighbor_allgatherv)
WAITS(Neighbor_alltoall, neighbor_alltoall)
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
