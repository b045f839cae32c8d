/* Operating-system counters of a process: from getrusage(2) for the calling process, from /proc for another process;
 * scheduler and I/O counters always from /proc. */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_proc(int pid, const char *name)
{
    char path[64];
    if (pid)
        snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    else
        snprintf(path, sizeof path, "/proc/self/%s", name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

int unperturbed_os_open(struct unperturbed_os_files *files, uint32_t groups, int pid)
{
    files->stat = files->status = files->scheduler = files->io = -1;
    files->waits = (groups & OS_WAITS) && !pid ? dlsym(RTLD_DEFAULT, "unperturbed_waits") : NULL;
    if (pid && (groups & OS_USAGE) &&
        ((files->stat = open_proc(pid, "stat")) < 0 || (files->status = open_proc(pid, "status")) < 0))
        return unperturbed_fail("cannot read /proc/PID/stat and /proc/PID/status of the program");
    if ((groups & OS_SCHEDULER) && (files->scheduler = open_proc(pid, "schedstat")) < 0)
        return unperturbed_fail("cannot read the scheduler's counters (/proc/PID/schedstat)");
    if ((groups & OS_IO) && (files->io = open_proc(pid, "io")) < 0)
        return unperturbed_fail("cannot read the counters of reading and writing (/proc/PID/io)");
    return 0;
}

void unperturbed_os_close(struct unperturbed_os_files *files)
{
    int *const file[] = {&files->stat, &files->status, &files->scheduler, &files->io};
    for (unsigned i = 0; i < sizeof file / sizeof *file; i++) {
        if (*file[i] > 0)
            close(*file[i]);
        *file[i] = -1;
    }
}

/* Uses no library function that might allocate or lock, and no cancellation point: this also runs in a signal
 * handler. */
static const char *number(const char *text, int64_t *value)
{
    while (*text && (*text < '0' || *text > '9'))
        text++;
    *value = 0;
    while (*text >= '0' && *text <= '9')
        *value = *value * 10 + (*text++ - '0');
    return text;
}

static int read_text(int fd, char *text, size_t size)
{
    ssize_t length = fd < 0 ? -1 : syscall(SYS_pread64, fd, text, size - 1, 0);
    if (length < 0)
        return -1;
    text[length] = 0;
    return 0;
}

static void own_usage(int64_t *value)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    value[0] = usage.ru_minflt;
    value[1] = usage.ru_majflt;
    value[2] = usage.ru_nvcsw;
    value[3] = usage.ru_nivcsw;
    value[4] = (int64_t)usage.ru_utime.tv_sec * 1000000 + usage.ru_utime.tv_usec;
    value[5] = (int64_t)usage.ru_stime.tv_sec * 1000000 + usage.ru_stime.tv_usec;
    value[6] = usage.ru_inblock;
    value[7] = usage.ru_oublock;
}

/* The same counters of another process, as far as /proc has them: times in clock ticks of 10 ms, context switches of
 * its main thread only, no blocks. Not inlined: its buffer would take 4 KiB of the handler's stack. */
__attribute__((noinline)) static int others_usage(const struct unperturbed_os_files *files, int64_t *value)
{
    char text[4096];
    if (read_text(files->stat, text, sizeof text) != 0)
        return -1;
    const char *rest = strrchr(text, ')'); /* the name may contain any character */
    int64_t field[12]; /* ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime */
    for (int i = 0; rest && i < 12; i++)
        rest = number(rest, &field[i]);
    if (!rest)
        return -1;
    value[0] = field[6];
    value[1] = field[8];
    value[4] = field[10] * (1000000 / sysconf(_SC_CLK_TCK));
    value[5] = field[11] * (1000000 / sysconf(_SC_CLK_TCK));
    if (read_text(files->status, text, sizeof text) != 0)
        return -1;
    const char *voluntary = strstr(text, "\nvoluntary_ctxt_switches:"),
               *other = strstr(text, "\nnonvoluntary_ctxt_switches:");
    if (!voluntary || !other)
        return -1;
    number(voluntary, &value[2]);
    number(other, &value[3]);
    return 0;
}

static int read_numbers(int fd, int64_t *value, int count)
{
    char text[512];
    const char *rest = text;
    if (read_text(fd, text, sizeof text) != 0)
        return -1;
    for (int i = 0; i < count; i++)
        rest = number(rest, &value[i]);
    return 0;
}

/* A call that has not returned yet waits, too: else an interval within it would have no waiting, and a later one more
 * than its length. */
static void own_waits(const struct unperturbed_waits *waits, int64_t *value)
{
    int64_t since = waits ? waits->since : 0;
    value[0] = waits ? waits->calls : 0;
    value[1] = waits ? waits->ns + (since ? unperturbed_nanoseconds(CLOCK_MONOTONIC) - since : 0) : 0;
}

int unperturbed_os_read(const struct unperturbed_os_files *files, uint32_t groups, int pid, int64_t *value)
{
    int result = 0;
    if (groups & OS_USAGE) {
        if (pid)
            result = others_usage(files, value);
        else
            own_usage(value);
        value += UNPERTURBED_USAGE;
    }
    if (groups & OS_SCHEDULER) {
        result |= read_numbers(files->scheduler, value, UNPERTURBED_SCHEDULER);
        value += UNPERTURBED_SCHEDULER;
    }
    if (groups & OS_IO) {
        result |= read_numbers(files->io, value, UNPERTURBED_IO);
        value += UNPERTURBED_IO;
    }
    if (groups & OS_WAITS)
        own_waits(files->waits, value);
    return result;
}
