/* perf_event: one group on the calling thread, read with one system call. */
#define _GNU_SOURCE
#include "sources.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static int group = -1;

struct group_reading {
    uint64_t events;
    uint64_t enabled;
    uint64_t running;
    uint64_t value[UNPERTURBED_EVENTS];
};

static int open_event(const struct unperturbed_event *event, int leader, int exclude_kernel)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = event->type;
    attr.config = event->config;
    attr.disabled = leader < 0;
    attr.exclude_kernel = exclude_kernel;
    attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

int unperturbed_perf_open(struct unperturbed_header *header)
{
    for (uint32_t i = 0; i < header->events; i++) {
        const struct unperturbed_event *event = &header->event[i];
        int fd = open_event(event, group, !(event->flags & 1));
        if (fd < 0) {
            header->error = errno;
            snprintf(header->message, sizeof header->message, "perf_event_open of %s: %s", event->name, strerror(errno));
            return -1;
        }
        if (group < 0)
            group = fd;
    }
    if (group >= 0 && ioctl(group, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0) {
        header->error = errno;
        snprintf(header->message, sizeof header->message, "the event group cannot be enabled: %s", strerror(errno));
        return -1;
    }
    return 0;
}

int unperturbed_perf_read(struct unperturbed_record *record, uint32_t events)
{
    struct group_reading reading;
    if (read(group, &reading, sizeof reading) < (ssize_t)(3 * sizeof(uint64_t)))
        return -1;
    record->enabled_ns = reading.enabled;
    record->running_ns = reading.running;
    for (uint32_t i = 0; i < events && i < reading.events; i++)
        record->value[i] = (int64_t)reading.value[i];
    return 0;
}
