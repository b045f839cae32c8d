/* Opens the source that a record file names. Runs once per thread, before its first record. */
#include "sources.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int open_nothing(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    (void)counters;
    (void)header;
    (void)pid;
    return 0;
}

static int read_nothing(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    (void)counters;
    (void)record;
    return 0;
}

static void close_nothing(struct unperturbed_counters *counters) { (void)counters; }

const struct unperturbed_source unperturbed_nothing = {open_nothing, read_nothing, close_nothing, NULL, 0, NULL};

int unperturbed_encode(struct unperturbed_header *header)
{
    const struct unperturbed_source *named = unperturbed_find_source(header->source);
    if (header->source == SOURCE_PERF)
        return 1;
    int left = named && named->encode ? named->encode(header) : 1;
    if (left > 0 && header->clock == CLOCK_IS_EVENT) {
        header->error = ENOTSUP;
        snprintf(header->message, sizeof header->message,
                 "%s cannot end intervals: perf_event would have to read all events of the run, but one of them has no "
                 "encoding for it (is libpfm4 installed?); use source: perf_event",
                 header->event[header->interval_event].name);
        return -1;
    }
    return left < 0 ? -1 : !left;
}

static int open_on(uint32_t source, struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid,
                   int32_t processor)
{
    counters->source = unperturbed_find_source(source);
    counters->processor = processor;
    counters->overflow = header->clock == CLOCK_IS_EVENT ? header->interval_event + 1 : 0;
    counters->options = header->options;
    counters->events = header->events;
    memset(counters->fd, -1, sizeof counters->fd);
    if (!counters->source) {
        counters->source = &unperturbed_nothing;
        header->error = ENOSYS;
        snprintf(header->message, sizeof header->message,
                 "the program was built before this source of counts was installed; build it again");
        return -1;
    }
    return counters->source->open(counters, header, pid);
}

int unperturbed_open_by(uint32_t source, struct unperturbed_counters *counters, struct unperturbed_header *header,
                        pid_t pid)
{
    return open_on(source, counters, header, pid, 0);
}

int unperturbed_open_attached(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid,
                              int32_t processor)
{
    return open_on(SOURCE_PERF, counters, header, pid, processor);
}

int unperturbed_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    return unperturbed_open_by(header->source, counters, header, pid);
}
