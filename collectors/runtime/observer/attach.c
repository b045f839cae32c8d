/* The observer of processes that run already: attach RECORD DURATION_NS pid NUMBER, or attach RECORD DURATION_NS cgroup
 * FOLDER.
 *
 * Opens a group of events on each thread of a process, or for a cgroup on each processor, and reads the sum in each
 * interval. The process executes no instruction for it; a reading interrupts the processors on which it runs. Threads
 * that the process creates later are counted too. Ends after the time, or with the process.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"
#include "../common/sources.h"
#include "shared.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CONVERSION_BYTES (sizeof(struct unperturbed_record) + 3 * UNPERTURBED_EVENTS * sizeof(int64_t))

struct attached {
    struct unperturbed_counters *group; /* one for each thread, or for each processor */
    size_t groups;
    int process; /* pidfd; -1 for a cgroup */
    pid_t pid;
    struct unperturbed_os_files os_files;
};

static struct unperturbed_counters *another(struct attached *attached)
{
    void *more = realloc(attached->group, (attached->groups + 1) * sizeof *attached->group);
    if (!more)
        return NULL;
    attached->group = more;
    memset(&attached->group[attached->groups], 0, sizeof *attached->group);
    return &attached->group[attached->groups];
}

/* A thread that has ended meanwhile is no failure. */
static int open_threads(struct attached *attached)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)attached->pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return unperturbed_refuse("cannot open the process");
    int result = 0;
    for (struct dirent *entry; result == 0 && (entry = readdir(tasks));) {
        pid_t thread = (pid_t)atoi(entry->d_name);
        struct unperturbed_counters *counters = thread > 0 ? another(attached) : NULL;
        if (!counters)
            continue;
        if (unperturbed_open_attached(counters, unperturbed_header, thread, 0) == 0)
            attached->groups++;
        else if (unperturbed_header->error != ESRCH)
            result = -1;
        else
            unperturbed_close(counters);
    }
    closedir(tasks);
    return result;
}

static int open_processors(struct attached *attached, const char *folder)
{
    int cgroup = open(folder, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    if (cgroup < 0)
        return unperturbed_refuse(folder);
    for (int32_t processor = 1; processor <= sysconf(_SC_NPROCESSORS_CONF); processor++) {
        struct unperturbed_counters *counters = another(attached);
        if (!counters)
            return unperturbed_refuse("memory");
        if (unperturbed_open_attached(counters, unperturbed_header, cgroup, processor) == 0)
            attached->groups++;
        else if (unperturbed_header->error != ENODEV) /* a processor that is switched off */
            return -1;
    }
    close(cgroup);
    return 0;
}

/* Adds all groups. A thread that is just ending cannot be read for a moment. */
static int read_counts(const struct attached *attached, struct unperturbed_record *record)
{
    static int64_t room[CONVERSION_BYTES / sizeof(int64_t) + 1];
    struct unperturbed_record *one = (struct unperturbed_record *)room;
    memset(record->value, 0, unperturbed_header->events * sizeof *record->value);
    record->enabled_ns = record->running_ns = 0;
    for (size_t i = 0; i < attached->groups && unperturbed_header->events; i++) {
        memset(room, 0, sizeof room);
        if (unperturbed_read(&attached->group[i], one) != 0)
            return -1;
        for (uint32_t event = 0; event < unperturbed_header->events; event++)
            record->value[event] += one->value[event];
        record->enabled_ns += one->enabled_ns;
        record->running_ns += one->running_ns;
    }
    return 0;
}

/* Returns whether the groups could be stopped. */
static int stop_counting(const struct attached *attached)
{
    int result = 0;
    for (size_t i = 0; i < attached->groups && unperturbed_header->events; i++)
        result |= ioctl(attached->group[i].fd[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
    return result == 0;
}

/* The kernel's own events need no counter. */
static int needs_counters(void)
{
    for (uint32_t i = 0; i < unperturbed_header->events; i++)
        if (unperturbed_header->event[i].type != PERF_TYPE_SOFTWARE &&
            unperturbed_header->event[i].type != PERF_TYPE_TRACEPOINT)
            return 1;
    return 0;
}

/* While they count, the events of a cgroup that has no processor just then show a wrong time on a counter; only the
 * last record has this time, after the events were stopped. */
static void observe(struct attached *attached, uint64_t overruns, int is_last)
{
    struct unperturbed_header *header = unperturbed_header;
    uint64_t position;
    struct unperturbed_record *record = unperturbed_begin_record(overruns, &position);
    if (!record)
        return;
    int is_stopped = is_last && attached->process < 0 && needs_counters() && stop_counting(attached);
    int unread = read_counts(attached, record);
    if (attached->process < 0 && !is_stopped)
        record->running_ns = record->enabled_ns;
    if (header->os)
        unread |=
            unperturbed_os_read(&attached->os_files, header->os, attached->pid, record->value + header->events) != 0;
    unperturbed_end_record(record, position, unread);
}

/* Returns the CPU time so far, in microseconds; -1 if the kernel does not tell that of this cgroup. */
static int64_t cpu_time_us(const struct attached *attached, const char *folder)
{
    char path[4096], text[256] = "";
    long long usage = -1;
    struct timespec time;
    if (attached->process >= 0) {
        clockid_t of_process = (clockid_t)((~(unsigned int)attached->pid << 3) | 2); /* clock_getcpuclockid(3) */
        return clock_gettime(of_process, &time) == 0 ? (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000 : -1;
    }
    snprintf(path, sizeof path, "%s/cpu.stat", folder);
    FILE *file = fopen(path, "re");
    while (file && usage < 0 && fgets(text, sizeof text, file))
        if (sscanf(text, "usage_usec %lld", &usage) != 1)
            usage = -1;
    if (file)
        fclose(file);
    return usage;
}

/* Returns whether the process has ended. */
static int observe_until(struct attached *attached, int64_t end_ns, int ticks)
{
    struct pollfd events[2] = {{ticks, POLLIN, 0}, {attached->process, POLLIN, 0}};
    uint64_t expirations;
    for (;;) {
        int64_t left_ns = end_ns - unperturbed_nanoseconds(CLOCK_MONOTONIC);
        if (left_ns <= 0)
            break;
        poll(events, attached->process < 0 ? 1 : 2, (int)(left_ns / 1000000) + 1);
        if (events[1].revents)
            return 1;
        if (read(ticks, &expirations, sizeof expirations) == (ssize_t)sizeof expirations)
            observe(attached, expirations - 1, 0);
    }
    return 0;
}

int main(int count, char **argument)
{
    struct attached attached;
    if (count != 5 || unperturbed_map(argument[1]) != 0) {
        fprintf(stderr, "usage: attach RECORD DURATION_NS pid NUMBER | attach RECORD DURATION_NS cgroup FOLDER\n");
        return 2;
    }
    struct unperturbed_header *header = unperturbed_header;
    memset(&attached, 0, sizeof attached);
    attached.process = -1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int encoded = unperturbed_encode(header), is_process = strcmp(argument[3], "pid") == 0, opened;
    if (encoded <= 0) {
        if (encoded == 0) {
            errno = ENOTSUP;
            unperturbed_refuse(
                "an event has no encoding for perf_event, which alone can count in a process that runs already");
        }
        __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
        return 127;
    }
    if (is_process) {
        attached.pid = (pid_t)atoi(argument[4]);
        attached.process = (int)syscall(SYS_pidfd_open, attached.pid, 0);
        if (attached.process < 0)
            return unperturbed_refuse("cannot open the process"), 127;
        opened = open_threads(&attached);
        if (opened == 0)
            opened = unperturbed_os_open(&attached.os_files, header->os, attached.pid);
    } else {
        opened = open_processors(&attached, argument[4]);
    }
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) == 0)
        unperturbed_mark(MARK_REAL_TIME);
    int ticks = opened == 0 ? unperturbed_start_ticking() : -1;
    if (ticks < 0) {
        __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
        return 127;
    }
    int64_t began_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC), began_us = cpu_time_us(&attached, argument[4]);
    observe(&attached, 0, 0);
    int ended = observe_until(&attached, began_ns + (int64_t)strtoll(argument[2], NULL, 10), ticks);
    errno = ESRCH;
    if (ended)
        return unperturbed_refuse("the process ended before the time of its window"), 127;
    observe(&attached, 0, 1);
    int64_t ended_us = cpu_time_us(&attached, argument[4]);
    header->program_user_us = began_us < 0 || ended_us < 0 ? 0 : ended_us - began_us;
    header->program_wall_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC) - began_ns;
    __atomic_store_n(&header->state, STATE_FINISHED, __ATOMIC_RELEASE);
    return 0;
}
