/* Writing of the record file: mapped, claimed by one process, and filled record by record without a lock. */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#endif

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define STEP_BYTES 65536  /* a further process's file grows by so much */
#define MOST_IMAGES 10000 /* programs that one process may execute in sequence */

struct unperturbed_header *unperturbed_header;
static size_t mapped_bytes;
static char first_path[4096];           /* the run's file */
static char own_path[UNPERTURBED_PATH]; /* the file that this process created; empty for the run's */
static pid_t counted;                   /* the process that this file, or the observer, counts */
static uint32_t own_rank;               /* the process's MPI rank + 1, which its children have too; 0: none */
static uint32_t all_ranks;
static int on_several_nodes;

const char *unperturbed_own_path(void) { return own_path[0] ? own_path : first_path; }

int unperturbed_is_counted(void) { return unperturbed_header && counted == getpid(); }

/* Returns whether a header matches its file: nothing may be written beyond the file's end, even if the file is damaged
 * or from a different version. */
static int is_sound(const struct unperturbed_header *header, size_t size)
{
    uint64_t times = header->options & OPTION_MULTIPLEX ? 2 * (uint64_t)header->events : 0;
    uint64_t values = (uint64_t)header->events + times + header->os_values + header->software;
    return memcmp(header->magic, UNPERTURBED_MAGIC, 8) == 0 && header->header_bytes == sizeof *header &&
           header->events <= UNPERTURBED_EVENTS && header->probes <= UNPERTURBED_PROBES &&
           (header->clock != CLOCK_IS_EVENT || header->interval_event < header->events) &&
           header->record_bytes == sizeof(struct unperturbed_record) + 8 * values &&
           header->capacity <= (size - sizeof *header) / header->record_bytes &&
           memchr(header->papi, 0, sizeof header->papi);
}

int unperturbed_map(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat status;
    void *map = MAP_FAILED;
    if (fstat(fd, &status) == 0 && status.st_size >= (off_t)sizeof(struct unperturbed_header))
        map = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    if (!is_sound(map, (size_t)status.st_size)) {
        munmap(map, (size_t)status.st_size);
        return -1;
    }
    unperturbed_header = map;
    mapped_bytes = (size_t)status.st_size;
    return 0;
}

static void leave(void)
{
    munmap(unperturbed_header, mapped_bytes);
    unperturbed_header = NULL;
}

static const char *value_of(char **environment, const char *name)
{
    size_t length = strlen(name);
    for (char **entry = environment; entry && *entry; entry++)
        if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

/* Returns the number in a variable, plus 1; 0 if it has none. */
static uint32_t number_of(char **environment, const char *name)
{
    const char *text = value_of(environment, name);
    uint32_t number = 0, digits = 0;
    for (; text && *text >= '0' && *text <= '9' && digits < 9; text++, digits++)
        number = number * 10 + (uint32_t)(*text - '0');
    return digits && !*text ? number + 1 : 0;
}

/* Learns the MPI rank from the variables of launchers, the surest first: Open MPI's own are in its ranks only; PMI's are
 * from MPICH's launchers, and from Slurm with --mpi=pmi2; PMIX_RANK tells no number of ranks, so Slurm's may serve.
 * SLURM_PROCID alone is in every task of Slurm, such as a batch script, whose environment a program may have: it is last,
 * and counts only with more than one task. */
static void find_rank(char **environment)
{
    static const char *const names[][2] = {{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                           {"PMI_RANK", "PMI_SIZE"},
                                           {"PMIX_RANK", "SLURM_NTASKS"},
                                           {"SLURM_PROCID", "SLURM_NTASKS"}};
    for (unsigned i = 0; i < sizeof names / sizeof *names && !own_rank; i++) {
        own_rank = number_of(environment, names[i][0]);
        all_ranks = number_of(environment, names[i][1]);
        all_ranks -= all_ranks > 0;
        if (i == 3 && all_ranks < 2)
            own_rank = 0;
    }
    /* How many ranks are here; Slurm tells the number of nodes. Each number is one more. */
    uint32_t here = number_of(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!here)
        here = number_of(environment, "MPI_LOCALNRANKS");
    on_several_nodes = own_rank && (here ? here - 1 < all_ranks : number_of(environment, "SLURM_STEP_NUM_NODES") > 2);
}

/* Whether a program starts ranks, and is none: its work is not the program's. It is not sampled, because signals would
 * interrupt the calls in which it waits for its ranks. The list is `collectors.records.ranks.LAUNCHERS`, too. */
static int starts_ranks(const char *name)
{
    static const char *const names[] = {"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "hydra_", "srun"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return 1;
    return 0;
}

static const char *name_of(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash ? slash + 1 : path ? path : "";
}

/* Notes which process the file is for, under the name by which it was executed. */
static void introduce(struct unperturbed_header *header, const char *image)
{
    counted = getpid();
    header->parent = (uint64_t)getppid();
    const void *random = (const void *)getauxval(AT_RANDOM);
    if (random)
        memcpy(header->random, random, sizeof header->random);
    strncpy(header->image, image, sizeof header->image - 1);
    header->rank = own_rank;
    header->ranks = all_ranks;
    if (on_several_nodes)
        unperturbed_mark(MARK_NODES);
}

/* Gives the file bytes up to `end`, not only holes. In a handler too: system calls only. */
static int allocate(int fd, size_t from, size_t end)
{
    struct rlimit largest; /* beyond it, the kernel would end the program by SIGXFSZ */
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < end) {
        errno = EFBIG;
        return -1;
    }
    if (syscall(SYS_fallocate, fd, 0, (long)from, (long)(end - from)) == 0)
        return 0;
    return errno == EOPNOTSUPP ? (int)syscall(SYS_ftruncate, fd, (long)end) : -1;
}

static size_t bytes_of(const struct unperturbed_header *header, uint64_t records)
{
    return header->header_bytes + (size_t)(records * header->record_bytes);
}

int unperturbed_grow(uint64_t position)
{
    struct unperturbed_header *header = unperturbed_header;
    if (position >= header->limit)
        return -1;
    size_t from = bytes_of(header, header->capacity), end = bytes_of(header, position + 1) + STEP_BYTES;
    uint64_t records = (end - header->header_bytes) / header->record_bytes;
    if (records > header->limit)
        records = header->limit;
    int fd = open(own_path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int result = allocate(fd, from, bytes_of(header, records));
    close(fd);
    /* Another thread may have made more room meanwhile. */
    for (uint64_t now = header->capacity; result == 0 && now < records;)
        if (__atomic_compare_exchange_n(&header->capacity, &now, records, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            break;
    return result;
}

/* Returns whether a file was claimed by this image: by another copy of the runtime, preloaded or linked in by hand. */
static int is_of_this_image(const uint64_t *random)
{
    const void *own = (const void *)getauxval(AT_RANDOM);
    return own && memcmp(random, own, sizeof unperturbed_header->random) == 0;
}

/* Opens a new file for this process: the first image of a process has number 0, and each exec adds 1. At an image's start,
 * fails with EALREADY if another copy of the runtime has one for it. */
static int create(int starts)
{
    for (int image = 0; image < MOST_IMAGES; image++) {
        snprintf(own_path, sizeof own_path, "%s.%d.%d", first_path, (int)getpid(), image);
        int fd = open(own_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        if (!starts)
            continue; /* of an earlier process with this number, forked by the same image */
        uint64_t random[2] = {0, 0};
        fd = open(own_path, O_RDONLY | O_CLOEXEC);
        ssize_t read = pread(fd, random, sizeof random, offsetof(struct unperturbed_header, random));
        close(fd);
        if (read == (ssize_t)sizeof random && is_of_this_image(random)) {
            errno = EALREADY;
            return -1;
        }
    }
    return -1;
}

/* Creates a record file for this process, with the settings of the mapped one, and maps it in its place. The address
 * range is that of a full file, of which only a beginning exists. */
static int claim_another(const char *image, int starts)
{
    const struct unperturbed_header *first = unperturbed_header;
    uint64_t limit = first->limit, records = STEP_BYTES / first->record_bytes;
    if (records > limit)
        records = limit;
    size_t room = bytes_of(first, limit);
    int fd = create(starts);
    if (fd < 0)
        return -1;
    struct unperturbed_header *own = MAP_FAILED;
    if (allocate(fd, 0, bytes_of(first, records)) == 0)
        own = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (own == MAP_FAILED) {
        unlink(own_path);
        return -1;
    }
    memcpy(own, first, offsetof(struct unperturbed_header, observer));
    memcpy(own->event, first->event, sizeof own->event);
    memcpy(own->probe, first->probe, sizeof own->probe);
    own->probes = first->probes;
    own->interval_event = first->interval_event;
    own->early_blocks = first->early_blocks;
    own->quantum_blocks = first->quantum_blocks;
    own->capacity = records;
    own->limit = limit;
    own->owner = (uint64_t)getpid();
    leave();
    unperturbed_header = own;
    mapped_bytes = room;
    introduce(own, image);
    return 0;
}

/* A further process of the run: with OPTION_CHILDREN it has a file of its own, or the observer's counters. */
static int join(const char *image, int starts)
{
    int is_launcher = unperturbed_header->source == SOURCE_CALLGRIND && !RUNNING_ON_VALGRIND; /* starts every exec */
    if ((unperturbed_header->options & OPTION_CHILDREN) && !is_launcher) {
        if (unperturbed_header->options & OPTION_OUTSIDE) {
            counted = getpid();
            return 0;
        }
        if (claim_another(image, starts) == 0)
            return 0;
        if (errno != EALREADY)
            unperturbed_mark(MARK_UNCOUNTED);
    }
    leave();
    return -1;
}

int unperturbed_claim_in_child(void)
{
    char image[sizeof unperturbed_header->image];
    if (!unperturbed_header)
        return -1;
    memcpy(image, unperturbed_header->image, sizeof image);
    return join(image, 0);
}

/* Maps the record file that the environment names, and claims it for this process. A second program of the same run
 * (`sh -c 'a; b'`) finds the file claimed; a set-uid program must not open files named by its caller's environment.
 * Works before the C library is initialised. */
int unperturbed_claim(char **environment)
{
    if (unperturbed_header)
        return 0;
    const char *path = value_of(environment, UNPERTURBED_ENVIRONMENT);
    if (!path || !*path || strlen(path) >= sizeof first_path || getauxval(AT_SECURE) || unperturbed_map(path) != 0)
        return -1;
    strcpy(first_path, path);
    struct unperturbed_header *header = unperturbed_header;
    const char *name = name_of((const char *)getauxval(AT_EXECFN));
    uint64_t owner = 0, me = (uint64_t)getpid();
    find_rank(environment);
    /* Every exec under callgrind begins with its launcher, which is not simulated. */
    int is_simulated = header->source != SOURCE_CALLGRIND || RUNNING_ON_VALGRIND;
    if ((starts_ranks(name) && !(header->options & OPTION_OUTSIDE)) || (own_rank && !is_simulated)) {
        leave();
        return -1;
    }
    if (header->owner == me && is_of_this_image(header->random)) { /* a constructor's fork has the same bytes */
        leave();
        return -1;
    }
    if (header->owner == me && !(header->options & OPTION_CHILDREN))
        unperturbed_mark(MARK_EXEC); /* this process claimed the file as another image, and then called exec */
    if (header->owner)
        return join(name, 1);
    if (!own_rank && header->program[0] && strncmp(header->program, name, sizeof header->program - 1) != 0) {
        leave();
        return -1;
    }
    if (!__atomic_compare_exchange_n(&header->owner, &owner, me, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return join(name, 1);
    introduce(header, name);
    /* Takes about 1 ms now, and prevents page faults by the sampler during the run. Linux before 5.14 does not have
     * this call, so the page faults occur. */
    if (!(header->options & OPTION_OUTSIDE))
        madvise(header, mapped_bytes, MADV_POPULATE_WRITE);
    return 0;
}

void unperturbed_mark(uint64_t mark) { __atomic_fetch_or(&unperturbed_header->marks, mark, __ATOMIC_RELAXED); }

int unperturbed_fail(const char *what)
{
    unperturbed_header->error = errno;
    snprintf(unperturbed_header->message, sizeof unperturbed_header->message, "%s: %s", what, strerror(errno));
    return -1;
}
