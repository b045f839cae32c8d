/* Kernel probes: the kernel counts their hits for the process that opens them, in addition to a source's events. */
#define _GNU_SOURCE
#include "sources.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <linux/version.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSED_INSTRUCTION 524 /* the kernel's ENOTSUPP, which the C library does not define */
#define PROBE_TRIES 20

static int failed(struct unperturbed_header *header, const char *what)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message, "%s: %s", what, strerror(errno));
    return -1;
}

/* Opened as tracepoints, not through the kernel's `uprobe` PMU: an inherited event of that PMU reads the path again
 * from the memory of the thread that creates a thread. The path is not there, and pthread_create(3) fails. */
static int open_probe(const struct unperturbed_header *header, const struct unperturbed_probe *probe, pid_t pid,
                      int leader)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.config = probe->tracepoint;
    attr.disabled = leader < 0;
    /* A breakpoint in user space is counted anyway, and more users are allowed to open it. */
    attr.exclude_kernel = attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_GROUP;
    attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    attr.inherit_thread = !(pid && (header->options & OPTION_CHILDREN));
#endif
    attr.enable_on_exec = pid && leader < 0;
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

/* An event that no child inherits. Without such an event, the kernel exchanges the events of parent and child when it
 * switches between them. A probe is bound to the memory of the process on which its event was opened: if one process
 * ended with the other's events, the other process would stop counting. */
static int open_unshared(pid_t pid)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_SOFTWARE;
    attr.config = PERF_COUNT_SW_DUMMY;
    attr.exclude_kernel = attr.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static const char *advice(int error)
{
    switch (error) {
    case EACCES:
    case EPERM:
        return "run as root, with CAP_PERFMON, or with kernel.perf_event_paranoid at 2 or less";
    case EINVAL:
        return "the kernel no longer has this probe, or its file has changed; start again";
    case REFUSED_INSTRUCTION:
        return "the kernel cannot set a breakpoint on that instruction; choose another function";
    case EIO:
        return "its file system allows no probes; copy the program to a disk";
    default:
        return strerror(error);
    }
}

int unperturbed_probes_open(struct unperturbed_probes *probes, struct unperturbed_header *header, pid_t pid)
{
    probes->count = 0;
    if (pid && header->probes && (header->options & OPTION_CHILDREN) && open_unshared(pid) < 0)
        return failed(header, "the kernel's probes cannot follow child processes");
    for (uint32_t i = 0; i < header->probes && i < UNPERTURBED_PROBES; i++) {
        probes->fd[i] = open_probe(header, &header->probe[i], pid, i ? probes->fd[0] : -1);
        if (probes->fd[i] < 0) {
            header->error = errno;
            snprintf(header->message, sizeof header->message, "the kernel's probe of %s: %s", header->probe[i].name,
                     advice(errno));
            return -1;
        }
        probes->count = i + 1;
    }
    if (probes->count && !pid && ioctl(probes->fd[0], PERF_EVENT_IOC_ENABLE, 0) != 0)
        return failed(header, "cannot enable the kernel's probes");
    return 0;
}

int unperturbed_probes_read(const struct unperturbed_probes *probes, const struct unperturbed_header *header,
                            int64_t *software)
{
    int64_t reading[1 + UNPERTURBED_PROBES]; /* number of probes, and the hits of each */
    long bytes = (long)((1 + probes->count) * sizeof *reading);
    if (probes->count == 0)
        return 0;
    long got = -1;
    for (int tries = 0; tries < PROBE_TRIES && got != bytes; tries++) {
        got = syscall(SYS_read, probes->fd[0], reading, bytes);
        /* A thread is just starting or ending, and has only a part of the group. */
        if (got < 0 && errno != ECHILD)
            break;
    }
    if (got != bytes)
        return -1;
    for (uint32_t i = 0; i < probes->count; i++)
        if (header->probe[i].metric < header->software)
            software[header->probe[i].metric] += reading[1 + i];
    return 0;
}

void unperturbed_probes_close(struct unperturbed_probes *probes)
{
    while (probes->count > 0)
        close(probes->fd[--probes->count]);
}
