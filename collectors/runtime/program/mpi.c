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
/* MPI's answer about a communicator, by one of its functions. */
static int ask(const char *name, word communicator)
{
    int answer = 0;
    int (*asked)(word, int *) = (int (*)(word, int *))(void *)look_up(name, NULL);
    if (asked)
        asked(communicator, &answer);
    return answer;
}

/* The numbers of ranks from which this one receives and to which it sends in a collective call among neighbours. */
static void count_neighbours(word communicator, int *in, int *out)
{
    int rank = ask("MPI_Comm_rank", communicator), weighted, topology = ask("MPI_Topo_test", communicator);
    int is_open_mpi = look_up("ompi_mpi_comm_world", NULL) != NULL; /* the two have other numbers for topologies */
    if (topology == (is_open_mpi ? 1 : 2)) {
        *in = *out = 2 * ask("MPI_Cartdim_get", communicator);
    } else if (topology == (is_open_mpi ? 2 : 1)) {
        ((int (*)(word, int, int *))(void *)look_up("MPI_Graph_neighbors_count", NULL))(communicator, rank, in);
        *out = *in;
    } else {
        function asked = look_up("MPI_Dist_graph_neighbors_count", NULL);
        ((int (*)(word, int *, int *, int *))(void *)asked)(communicator, in, out, &weighted);
    }
}

typedef word definition(word, word, word, word, word, word, word, word, word, word, word, word);
definition MPI_Reduce_scatter;

enum { NEIGHBOURS = -1 };

/* Calls a function for counts of 32 bits with the arguments of the one for 64 bits: `arrays` has a bit for each array of
 * counts or displacements, one of each rank's; `alone` is the place of a count that stands alone, `root` that of the root,
 * at which alone the arrays are read. Where there is none of these, it is `communicator`. */
static word with_narrow(function call, const char *name, const word *given, unsigned arrays, int alone, int root,
                        int communicator)
{
    word of = given[communicator], with[12];
    int out, in, fits = 1, reads = 1;
    if (root == NEIGHBOURS) {
        count_neighbours(of, &in, &out);
    } else {
        int between = ask("MPI_Comm_test_inter", of);
        in = out = ask(between && call != MPI_Reduce_scatter ? "MPI_Comm_remote_size" : "MPI_Comm_size", of);
        if (root != communicator)
            reads = between ? (int)given[root] < 0 : (int)given[root] == ask("MPI_Comm_rank", of);
    }
    int narrow[4][(in > out ? in : out) + 1];
    for (int i = 0, used = 0; i < 12; i++) {
        const int64_t *wide = (const int64_t *)given[i];
        with[i] = given[i];
        if (!(arrays >> i & 1) || !wide || !reads)
            continue;
        for (int rank = 0; rank < (i < 3 ? out : in); rank++) {
            narrow[used][rank] = (int)wide[rank];
            fits &= narrow[used][rank] == wide[rank];
        }
        with[i] = (word)narrow[used++];
    }
    if (!fits || (alone != communicator && (int)given[alone] != given[alone]))
        return missing(name);
    return call(with[0], with[1], with[2], with[3], with[4], with[5], with[6], with[7], with[8], with[9], with[10],
                with[11]);
}
#define EACH_COUNTS(name, fortran, arrays, alone, root, communicator) \
    WAITS(name, fortran) \
    DEFINED(MPI_##name##_c, 1, \
            with_narrow(MPI_##name, "MPI_" #name "_c", (word[]){a, b, c, d, e, f, g, h, i, j, k, l}, arrays, alone, \
                        root, communicator))
/* Places of arrays: counts and displacements of a side, or of both. */
enum { GATHERED = 1 << 4 | 1 << 5, SCATTERED = 1 << 1 | 1 << 2, BOTH = SCATTERED | 1 << 5 | 1 << 6 };

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
EACH_COUNTS(Gatherv, gatherv, GATHERED, 1, 7, 8)
COUNTS(Scatter, scatter, b, e)
EACH_COUNTS(Scatterv, scatterv, SCATTERED, 5, 7, 8)
COUNTS(Allgather, allgather, b, e)
EACH_COUNTS(Allgatherv, allgatherv, GATHERED, 1, 7, 7)
COUNTS(Alltoall, alltoall, b, e)
EACH_COUNTS(Alltoallv, alltoallv, BOTH, 8, 8, 8)
EACH_COUNTS(Alltoallw, alltoallw, BOTH, 8, 8, 8)
COUNTS(Reduce, reduce, c, c)
COUNTS(Allreduce, allreduce, c, c)
EACH_COUNTS(Reduce_scatter, reduce_scatter, 1 << 2, 5, 5, 5)
COUNTS(Reduce_scatter_block, reduce_scatter_block, c, c)
COUNTS(Scan, scan, c, c)
COUNTS(Exscan, exscan, c, c)
COUNTS(Neighbor_allgather, neighbor_allgather, b, e)
EACH_COUNTS(Neighbor_allgatherv, neighbor_allgatherv, GATHERED, 1, NEIGHBOURS, 7)
COUNTS(Neighbor_alltoall, neighbor_alltoall, b, e)
EACH_COUNTS(Neighbor_alltoallv, neighbor_alltoallv, BOTH, 8, NEIGHBOURS, 8)
EACH_COUNTS(Neighbor_alltoallw, neighbor_alltoallw, 1 << 1 | 1 << 5, 8, NEIGHBOURS, 8)
WAITS(Win_fence, win_fence)
WAITS(Win_wait, win_wait)
WAITS(Win_complete, win_complete)
WAITS(Win_lock, win_lock)
WAITS(Win_unlock, win_unlock)
WAITS(Win_flush, win_flush)
WAITS(Comm_dup, comm_dup)
WAITS(Comm_split, comm_split)
