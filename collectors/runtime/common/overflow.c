/* Intervals by work: an event that overflows after a number of counts sends the signal that ends an interval. */
#define _GNU_SOURCE
#include "sources.h"

#include <fcntl.h>
#include <linux/perf_event.h>
#include <string.h>
#include <unistd.h>

int unperturbed_overflow_start(const struct unperturbed_counters *counters, pid_t thread, int signal)
{
    int fd = counters->fd[counters->overflow - 1];
    struct f_owner_ex owner = {F_OWNER_TID, thread};
    return fcntl(fd, F_SETOWN_EX, &owner) == 0 && fcntl(fd, F_SETSIG, signal) == 0 && fcntl(fd, F_SETFL, O_ASYNC) == 0
               ? 0
               : -1;
}

void unperturbed_overflow_stop(const struct unperturbed_counters *counters)
{
    fcntl(counters->fd[counters->overflow - 1], F_SETFL, 0);
}

int unperturbed_overflow_throttled(const struct unperturbed_counters *counters)
{
    struct perf_event_mmap_page *page = counters->page[counters->overflow - 1];
    const char *data = (const char *)page + page->data_offset;
    uint64_t last = page->data_size - 1, tail = page->data_tail;
    uint64_t head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE);
    int throttled = 0;
    while (tail < head) {
        struct perf_event_header record; /* never split at the buffer's end: record sizes are multiples of its size */
        memcpy(&record, data + (tail & last), sizeof record);
        throttled |= record.type == PERF_RECORD_THROTTLE;
        if (record.size == 0)
            break;
        tail += record.size;
    }
    __atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
    return throttled;
}
