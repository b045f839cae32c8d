/* Writing of the record file: mapped, claimed by one process, and filled record by record without a lock. */
#define _GNU_SOURCE
#include "runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct unperturbed_header *unperturbed_header;
static size_t mapped_bytes;

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

static const char *record_path(char **environment)
{
    size_t length = strlen(UNPERTURBED_ENVIRONMENT);
    for (char **entry = environment; entry && *entry; entry++)
        if (strncmp(*entry, UNPERTURBED_ENVIRONMENT, length) == 0 && (*entry)[length] == '=')
            return *entry + length + 1;
    return NULL;
}

/* Maps the record file that the environment names, and claims it for this process. A second program of the same run
 * (`sh -c 'a; b'`) finds the file claimed and does not use it; nor does a set-uid program, which must not open files
 * named by its caller's environment. Works before the C library is initialised. */
int unperturbed_claim(char **environment)
{
    if (unperturbed_header)
        return 0;
    const char *path = record_path(environment);
    if (!path || !*path || getauxval(AT_SECURE) || unperturbed_map(path) != 0)
        return -1;
    struct unperturbed_header *header = unperturbed_header;
    const char *name = (const char *)getauxval(AT_EXECFN);
    const char *slash = name ? strrchr(name, '/') : NULL;
    name = slash ? slash + 1 : name ? name : "";
    uint64_t owner = 0, me = (uint64_t)getpid();
    /* This process claimed the file as another image, and then called exec: maybe by another name. */
    if (header->owner == me) {
        unperturbed_mark(MARK_EXEC);
        leave();
        return -1;
    }
    if ((header->program[0] && strncmp(header->program, name, sizeof header->program - 1) != 0) ||
        !__atomic_compare_exchange_n(&header->owner, &owner, me, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        leave();
        return -1;
    }
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
