/* The observer's access to the measured program: counters in shared memory, and gauges in the program's memory. */
#define _GNU_SOURCE
#include "shared.h"
#include "../common/runtime.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define GAUGES_A_CALL 1000 /* process_vm_readv(2) accepts 1024 ranges */

static struct unperturbed_counters_area *area;

int unperturbed_share(void)
{
    int fd = memfd_create("unperturbed-counters", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, sizeof *area) != 0)
        return unperturbed_refuse("no memory for the software counters");
    void *map = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return unperturbed_refuse("no memory for the software counters");
    area = map;
    unperturbed_header->observer = getpid();
    unperturbed_header->counters_fd = fd;
    return 0;
}

static void read_counters(int64_t *value)
{
    uint64_t slots = __atomic_load_n(&area->used, __ATOMIC_RELAXED) / sizeof(uint64_t);
    for (uint64_t slot = 0; slot < slots; slot++) {
        uint32_t metric = __atomic_load_n(&area->metric[slot], __ATOMIC_RELAXED);
        if (metric && metric <= unperturbed_header->software)
            value[metric - 1] += (int64_t)__atomic_load_n(&area->slot[slot], __ATOMIC_RELAXED);
    }
}

/* The gauges' values at the last reading; and whether the program's image that they were read from is gone. */
static int64_t gauge_value[UNPERTURBED_GAUGES];
static int gauges_are_gone;

/* Reads gauges from the program's memory with one system call, together with the word that identifies its image. */
static int read_gauges_from(uint64_t first, uint64_t count)
{
    static unsigned char copy[sizeof(uint64_t) * (GAUGES_A_CALL + 1)];
    struct iovec place[GAUGES_A_CALL + 1], local = {copy, 0};
    place[0] = (struct iovec){(void *)(uintptr_t)area->token, sizeof(uint64_t)};
    for (uint64_t i = 0; i <= count; i++) {
        if (i > 0)
            place[i] =
                (struct iovec){(void *)(uintptr_t)area->gauge[first + i - 1].address, area->gauge[first + i - 1].bytes};
        local.iov_len += place[i].iov_len;
    }
    ssize_t length = process_vm_readv((pid_t)unperturbed_header->owner, &local, 1, place, count + 1, 0);
    if (length < 0 && errno != ESRCH && errno != EFAULT)
        return unperturbed_refuse("cannot read the gauges in the program's memory (is kernel.yama.ptrace_scope "
                                  "above 1, or is the program set-uid?)");
    uint64_t token = 0;
    if (length >= (ssize_t)sizeof token)
        memcpy(&token, copy, sizeof token);
    if (token != UNPERTURBED_TOKEN) {
        gauges_are_gone = 1; /* the program has ended or replaced itself */
        return 0;
    }
    if (length != (ssize_t)local.iov_len) {
        errno = EFAULT;
        return unperturbed_refuse("a gauge is in memory that the program has unmapped");
    }
    const unsigned char *next = copy + sizeof token;
    for (uint64_t i = first; i < first + count; next += area->gauge[i++].bytes)
        gauge_value[i] = unperturbed_gauge_value(next, area->gauge[i].bytes, area->gauge[i].is_signed);
    return 0;
}

/* Before the program has attached, there are no gauges, and the sum is 0; after it has ended, the last values
 * remain. */
static int read_gauges(int64_t *value)
{
    uint64_t count = __atomic_load_n(&area->gauges, __ATOMIC_ACQUIRE), told = 0;
    while (told < count && told < UNPERTURBED_GAUGES && __atomic_load_n(&area->gauge[told].metric, __ATOMIC_ACQUIRE))
        told++; /* a gauge that is just being registered is read from the next record on */
    for (uint64_t first = 0; first < told && !gauges_are_gone; first += GAUGES_A_CALL)
        if (read_gauges_from(first, told - first < GAUGES_A_CALL ? told - first : GAUGES_A_CALL) != 0)
            return -1;
    int ended = gauges_are_gone && __atomic_load_n(&area->ended, __ATOMIC_ACQUIRE);
    for (uint64_t i = 0; i < told; i++)
        if (area->gauge[i].metric <= unperturbed_header->software)
            value[area->gauge[i].metric - 1] += ended ? area->gauge[i].last : gauge_value[i];
    return 0;
}

int unperturbed_read_shared(int64_t *value)
{
    read_counters(value);
    return read_gauges(value);
}
