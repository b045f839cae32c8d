/* Opens the source that a record file names. Runs once a thread, before its first record. */
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

const struct unperturbed_source unperturbed_nothing = {open_nothing, read_nothing, close_nothing, NULL, 0};

int unperturbed_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    counters->source = unperturbed_find_source(header->source);
    counters->options = header->options;
    counters->events = header->events;
    memset(counters->fd, -1, sizeof counters->fd);
    if (!counters->source) {
        counters->source = &unperturbed_nothing;
        header->error = ENOSYS;
        snprintf(header->message, sizeof header->message,
                 "the program was built before this source of counts was installed: build it again");
        return -1;
    }
    return counters->source->open(counters, header, pid);
}
