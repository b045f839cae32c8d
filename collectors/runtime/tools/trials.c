/* Trials of what this host can count: a program that reads questions from stdin and answers one line per event. It does
 * not use the runtime. This is the kernel's part; PAPI's part is in papi.c.
 *
 * Questions, one per line:
 *   perf TYPE CONFIG CONFIG1 CONFIG2 USER KERNEL NAME   open the event on this thread
 *   perf-led CONFIG perf's arguments                    the same in a group led by an event of the same type
 *   fit TYPE CONFIG [TYPE CONFIG]...                    how many of these count together, all the time, in one pinned
 *                                                       group; at most 16
 *   papi NAME                                           add the event to an event set
 *   papi-enumerate                                      PAPI's version, its components, its presets, its native events,
 *                                                       each tried
 *   papi-fit NAME...                                    how many of these count together in one event set
 *
 * Answers: fields separated by tabs: kind (perf, fit, papi, preset, native, component, library, papi-fit), name, `ok`
 * or the reason, code (errno, PAPI's code, or the number of events that fit), description, unit. A line is written as
 * soon as it is known: a library's crash does not affect earlier answers.
 */
#define _GNU_SOURCE
#include "trials.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Long enough for the kernel to rotate groups that do not fit (its tick is 1 to 10 ms; a pinned group fails
 * immediately). */
#define WORK_NS 2000000

void answer(const char *what, const char *name, const char *reason, int code, const char *description, const char *unit)
{
    char line[4096];
    int length =
        snprintf(line, sizeof line, "%s\t%s\t%s\t%d\t%.1500s\t%s", what, name, reason, code, description, unit);
    for (int i = 0; i < length && i < (int)sizeof line; i++)
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    puts(line);
    fflush(stdout);
}

void work_a_moment(void)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000LL + (now.tv_nsec - begin.tv_nsec) < WORK_NS);
}

static int open_event(const struct perf_event_attr *asked, int leader, int pinned)
{
    struct perf_event_attr attr = *asked;
    attr.size = sizeof attr;
    attr.disabled = leader < 0;
    attr.pinned = pinned && leader < 0;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

/* `leads`: the configuration of the leading event, or NULL. */
static void try_perf(char *arguments, const uint64_t *leads)
{
    struct perf_event_attr attr;
    unsigned type;
    int user, kernel, name = 0;
    memset(&attr, 0, sizeof attr);
    uint64_t config, config1, config2;
    if (sscanf(arguments, "%u %" SCNi64 " %" SCNi64 " %" SCNi64 " %d %d %n", &type, (int64_t *)&config,
               (int64_t *)&config1, (int64_t *)&config2, &user, &kernel, &name) < 6 ||
        !name) {
        answer("perf", arguments, "not understood", EINVAL, "", "");
        return;
    }
    attr.type = type;
    attr.config = config;
    attr.config1 = config1;
    attr.config2 = config2;
    attr.exclude_user = !user;
    attr.exclude_kernel = !kernel;
    attr.exclude_hv = !kernel; /* a PMU that cannot exclude the kernel refuses all exclusions */
    int leader = -1;
    if (leads) {
        struct perf_event_attr first = attr;
        first.config = *leads;
        first.config1 = first.config2 = 0;
        leader = open_event(&first, -1, 0);
    }
    int fd = leads && leader < 0 ? -1 : open_event(&attr, leader, 0), error = errno;
    if (leader >= 0)
        close(leader);
    if (fd < 0) {
        answer("perf", arguments + name, strerror(error), error, "", "");
        return;
    }
    close(fd);
    answer("perf", arguments + name, "ok", 0, "", "");
}

static void try_led(char *arguments)
{
    uint64_t config;
    int used = 0;
    if (sscanf(arguments, "%" SCNi64 " %n", (int64_t *)&config, &used) < 1 || !used)
        answer("perf", arguments, "not understood", EINVAL, "", "");
    else
        try_perf(arguments + used, &config);
}

/* Returns whether the group of `leader` counts whenever this thread runs. A pinned group that does not fit is in an
 * error state: reading returns end of file. */
static int runs_all_the_time(int leader)
{
    uint64_t reading[3];
    ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
    if (ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0)
        return 0;
    work_a_moment();
    ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
    return read(leader, reading, sizeof reading) == (ssize_t)sizeof reading && reading[1] > 0 &&
           reading[1] == reading[2];
}

/* Events that cannot be opened alone are left out; the rest join the group until one does not fit. */
static void fit_perf(char *arguments)
{
    int fd[GROUP], count = 0, error = 0, used;
    unsigned type;
    int64_t config;
    const char *reason = "no event can be opened";
    for (char *at = arguments; count < GROUP && sscanf(at, "%u %" SCNi64 " %n", &type, &config, &used) == 2;
         at += used) {
        struct perf_event_attr attr;
        memset(&attr, 0, sizeof attr);
        attr.type = type;
        attr.config = (uint64_t)config;
        attr.exclude_kernel = attr.exclude_hv = 1;
        int alone = open_event(&attr, -1, 0);
        if (alone < 0) {
            error = errno;
            continue;
        }
        close(alone);
        int leader = count ? fd[0] : -1;
        fd[count] = open_event(&attr, leader, 1);
        if (fd[count] < 0) {
            reason = "the next event was refused";
            break;
        }
        if (!runs_all_the_time(fd[0])) {
            close(fd[count]);
            reason = "with the next event they would be multiplexed";
            break;
        }
        count++;
        reason = "all that were tried";
    }
    if (count)
        answer("fit", "perf_event", "ok", count, reason, "");
    else
        answer("fit", "perf_event", error ? strerror(error) : reason, error, "", "");
    while (count > 0)
        close(fd[--count]);
}

int main(void)
{
    static char line[65536];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "perf ", 5) == 0)
            try_perf(line + 5, NULL);
        else if (strncmp(line, "perf-led ", 9) == 0)
            try_led(line + 9);
        else if (strncmp(line, "fit ", 4) == 0)
            fit_perf(line + 4);
        else if (strncmp(line, "papi ", 5) == 0)
            try_papi(line + 5);
        else if (strncmp(line, "papi-fit ", 9) == 0)
            fit_papi(line + 9);
        else if (strcmp(line, "papi-enumerate") == 0)
            enumerate_papi();
        else
            answer("question", line, "not understood", EINVAL, "", "");
    }
    return 0;
}
