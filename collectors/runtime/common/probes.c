/* Probes of the kernel, which counts their hits for the process that opens them: beside the events of any source. */
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

#define REFUSED_INSTRUCTION 524 /* the kernel's ENOTSUPP, which the C library does not know */
#define PROBE_TRIES 20

static int failed(struct unperturbed_header *header, const char *what)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message, "%s: %s", what, strerror(errno));
    return -1;
}

/* Not by the kernel's `uprobe` PMU: what is opened by it and inherited reads the path again, in the memory of the
 * thread that makes a thread. There it is not, and pthread_create(3) fails. A tracepoint is a number. */
static int open_probe(const struct unperturbed_header *header, const struct unperturbed_probe *probe, pid_t pid,
                      int leader)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.config = probe->tracepoint;
    attr.disabled = leader < 0;
    /* A breakpoint in user space counts all the same, and more users may ask for it. */
    attr.exclude_kernel = attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_GROUP;
    attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    attr.inherit_thread = !(pid && (header->options & OPTION_CHILDREN));
#endif
    attr.enable_on_exec = pid && leader < 0;
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

/* An event that no child inherits. Without one the kernel takes the events of parent and child for each other's when it
 * switches between them. A probe is bound to the memory of the process that its event was opened on: once one process
 * ends with the other's events, the other counts no more. */
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
    int64_t reading[1 + UNPERTURBED_PROBES]; /* how many, and the hits of each */
    long bytes = (long)((1 + probes->count) * sizeof *reading);
    if (probes->count == 0)
        return 0;
    long got = -1;
    for (int tries = 0; tries < PROBE_TRIES && got != bytes; tries++) {
        got = syscall(SYS_read, probes->fd[0], reading, bytes);
        /* That is: a thread is just beginning or ending, and has a part of the group only. */
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
