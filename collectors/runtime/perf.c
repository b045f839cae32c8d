/* perf_event: events of one thread, or of a process with its threads, in one group that one system call reads. */
#define _GNU_SOURCE
#include "sources.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <linux/version.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_TOO 1
#define NOT_USER 2
#define REFUSED_INSTRUCTION 524 /* the kernel's ENOTSUPP, which the C library does not know */
#define PROBE_TRIES 20
#define ARM64_USER_ACCESS 2 /* attr.config1, bit 1: the kernel may let the thread read the counter itself */

struct single_reading {
    uint64_t value;
    uint64_t enabled;
    uint64_t running;
};

static int open_event(const struct unperturbed_event *event, uint32_t options, pid_t pid, int leader, uint64_t access)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = event->type;
    attr.config = event->config;
    attr.config1 = event->config1 | access;
    attr.config2 = event->config2;
    attr.disabled = leader < 0;
    attr.exclude_kernel = !(event->flags & KERNEL_TOO);
    attr.exclude_user = !!(event->flags & NOT_USER);
    attr.exclude_hv = attr.exclude_kernel; /* a PMU that counts everywhere refuses every exclusion */
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    if (!(options & OPTION_MULTIPLEX))
        attr.read_format |= PERF_FORMAT_GROUP;
    if (pid) {
        attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
        attr.inherit_thread = !(options & OPTION_CHILDREN);
#endif
        attr.enable_on_exec = leader < 0;
    }
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

static int failed(struct unperturbed_header *header, const char *what, const char *name)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message, "%s%s: %s", what, name, strerror(errno));
    return -1;
}

/* Maps the page that tells how to read an event in user space; returns whether the kernel lets this program do so. */
static int map_page(struct unperturbed_counters *counters, uint32_t event)
{
    struct perf_event_mmap_page *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, counters->fd[event], 0);
    counters->page[event] = page == MAP_FAILED ? NULL : page;
    return page != MAP_FAILED && page->cap_user_rdpmc;
}

int unperturbed_perf_open(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    uint32_t options = header->options;
    memset(counters->fd, -1, sizeof counters->fd);
    int user_read = (options & OPTION_USER_READ) && !pid && !(options & (OPTION_MULTIPLEX | OPTION_RESET));
    for (uint32_t i = 0; i < header->events; i++) {
        const struct unperturbed_event *event = &header->event[i];
        int leader = i == 0 || (options & OPTION_MULTIPLEX) ? -1 : counters->fd[0];
        int fd = -1;
#if defined(__aarch64__)
        if (user_read)
            fd = open_event(event, options, pid, leader, ARM64_USER_ACCESS);
#endif
        if (fd < 0)
            fd = open_event(event, options, pid, leader, 0);
        if (fd < 0)
            return failed(header, "perf_event_open of ", event->name);
        counters->fd[i] = fd;
        user_read = user_read && map_page(counters, i);
    }
    if (!user_read)
        counters->options &= ~(uint32_t)OPTION_USER_READ;
    for (uint32_t i = 0; i < (options & OPTION_MULTIPLEX ? header->events : header->events > 0) && !pid; i++)
        if (ioctl(counters->fd[i], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0)
            return failed(header, "the event group cannot be enabled", "");
    return 0;
}

#if defined(__x86_64__) || defined(__i386__)
static int read_register(uint32_t index, uint64_t *value)
{
    uint32_t low, high;
    __asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
    *value = low | (uint64_t)high << 32;
    return 0;
}
#elif defined(__aarch64__)
#define ONE(n)                                                                                                         \
    case n:                                                                                                            \
        __asm__ __volatile__("mrs %0, pmevcntr" #n "_el0" : "=r"(*value));                                             \
        return 0;
static int read_register(uint32_t index, uint64_t *value)
{
    switch (index) {
        ONE(0) ONE(1) ONE(2) ONE(3) ONE(4) ONE(5) ONE(6) ONE(7) ONE(8) ONE(9) ONE(10) ONE(11) ONE(12) ONE(13) ONE(14) ONE(15)
    case 31:
        __asm__ __volatile__("mrs %0, pmccntr_el0" : "=r"(*value));
        return 0;
    default:
        return -1;
    }
}
#else
static int read_register(uint32_t index, uint64_t *value)
{
    (void)index;
    (void)value;
    return -1;
}
#endif

/* Reads one counter in user space, as linux/perf_event.h says: again when the kernel moved the event meanwhile. Returns -1 when the kernel must be asked:
 * the event is not on a counter, or has not been on one all the time. The time enabled is that of the kernel's last update. */
static int read_page(const struct perf_event_mmap_page *page, int64_t *count, uint64_t *enabled)
{
    uint32_t sequence;
    do {
        uint64_t raw;
        sequence = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
        uint32_t index = page->index;
        if (!page->cap_user_rdpmc || index == 0 || page->time_enabled != page->time_running || read_register(index - 1, &raw) != 0)
            return -1;
        int unused = 64 - page->pmc_width;
        *count = page->offset + ((int64_t)(raw << unused) >> unused);
        *enabled = page->time_enabled;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while (__atomic_load_n(&page->lock, __ATOMIC_RELAXED) != sequence);
    return 0;
}

static int read_in_user_space(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    for (uint32_t i = 0; i < counters->events; i++)
        if (read_page(counters->page[i], &record->value[i], &record->enabled_ns) != 0)
            return -1;
    record->running_ns = record->enabled_ns;
    return 0;
}

_Static_assert(offsetof(struct unperturbed_record, enabled_ns) == offsetof(struct unperturbed_record, read_ns) + 8 &&
                   offsetof(struct unperturbed_record, value) == offsetof(struct unperturbed_record, enabled_ns) + 16,
               "a group's reading is: how many events, time enabled, time running, values");

/* Straight into the record. How many events there are lands in read_ns, which is written when the reading is over.
 * By syscall(2): read(2) is a point at which a thread may be cancelled, and it is not the program that reads here. */
static int read_group(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    size_t bytes = (3 + counters->events) * sizeof(uint64_t);
    return syscall(SYS_read, counters->fd[0], &record->read_ns, bytes) == (long)bytes ? 0 : -1;
}

static int read_each(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    int64_t *times = record->value + counters->events;
    record->running_ns = UINT64_MAX;
    for (uint32_t i = 0; i < counters->events; i++) {
        struct single_reading reading;
        if (syscall(SYS_read, counters->fd[i], &reading, sizeof reading) != (long)sizeof reading)
            return -1;
        record->value[i] = (int64_t)reading.value;
        times[2 * i] = (int64_t)reading.enabled;
        times[2 * i + 1] = (int64_t)reading.running;
        if (reading.enabled > record->enabled_ns)
            record->enabled_ns = reading.enabled;
        if (reading.running < record->running_ns)
            record->running_ns = reading.running;
    }
    return 0;
}

/* The paper's way: counters stand still while they are read, and begin at zero again. Members first and the leader last: enabled as a group, the kernel
 * leaves out those that another PMU counts than the leader's. */
static int stop_read_reset_start(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    int leader = counters->fd[0];
    if (ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP) != 0 || read_group(counters, record) != 0 ||
        ioctl(leader, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP) != 0)
        return -1;
    for (uint32_t i = counters->events; i-- > 0;)
        if (ioctl(counters->fd[i], PERF_EVENT_IOC_ENABLE, 0) != 0)
            return -1;
    for (uint32_t i = 0; i < counters->events; i++)
        record->value[i] = counters->total[i] += record->value[i];
    return 0;
}

/* Apart from the usual way, which shall be short. */
static __attribute__((noinline)) int read_as_asked(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    if (counters->options & OPTION_MULTIPLEX)
        return read_each(counters, record);
    if (counters->options & OPTION_RESET)
        return stop_read_reset_start(counters, record);
    if (read_in_user_space(counters, record) == 0) {
        counters->user_reads++;
        return 0;
    }
    return read_group(counters, record);
}

int unperturbed_perf_read(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    if (counters->events == 0)
        return 0;
    if (!(counters->options & (OPTION_MULTIPLEX | OPTION_RESET | OPTION_USER_READ)))
        return read_group(counters, record);
    return read_as_asked(counters, record);
}

/* Not by the kernel's `uprobe` PMU: what is opened by it and inherited reads the path again, in the memory of the thread that makes a thread. There it is
 * not, and pthread_create(3) fails. A tracepoint is a number. */
static int open_probe(const struct unperturbed_header *header, const struct unperturbed_probe *probe, pid_t pid, int leader)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_TRACEPOINT;
    attr.config = probe->tracepoint;
    attr.disabled = leader < 0;
    attr.exclude_kernel = attr.exclude_hv = 1; /* a breakpoint in user space counts all the same, and more users may ask for it */
    attr.read_format = PERF_FORMAT_GROUP;
    attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    attr.inherit_thread = !(pid && (header->options & OPTION_CHILDREN));
#endif
    attr.enable_on_exec = pid && leader < 0;
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
}

/* An event that no child inherits. Without one the kernel takes the events of parent and child for each other's when it switches between them. A probe is bound
 * to the memory of the process that its event was opened on: once one process ends with the other's events, the other counts no more. */
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
        return "the kernel knows this probe no more, or its file has changed; start again";
    case REFUSED_INSTRUCTION:
        return "the kernel can set no breakpoint on that instruction; take another function";
    case EIO:
        return "its file lies in a file system that lets no probe be set; copy the program to a disk";
    default:
        return strerror(error);
    }
}

int unperturbed_probes_open(struct unperturbed_probes *probes, struct unperturbed_header *header, pid_t pid)
{
    probes->count = 0;
    if (pid && header->probes && (header->options & OPTION_CHILDREN) && open_unshared(pid) < 0)
        return failed(header, "the kernel's probes cannot follow children", "");
    for (uint32_t i = 0; i < header->probes && i < UNPERTURBED_PROBES; i++) {
        probes->fd[i] = open_probe(header, &header->probe[i], pid, i ? probes->fd[0] : -1);
        if (probes->fd[i] < 0) {
            header->error = errno;
            snprintf(header->message, sizeof header->message, "the kernel's probe of %s: %s", header->probe[i].name, advice(errno));
            return -1;
        }
        probes->count = i + 1;
    }
    if (probes->count && !pid && ioctl(probes->fd[0], PERF_EVENT_IOC_ENABLE, 0) != 0)
        return failed(header, "the kernel's probes cannot be enabled", "");
    return 0;
}

int unperturbed_probes_read(const struct unperturbed_probes *probes, const struct unperturbed_header *header, int64_t *software)
{
    int64_t reading[1 + UNPERTURBED_PROBES]; /* how many, and the hits of each */
    long bytes = (long)((1 + probes->count) * sizeof *reading);
    if (probes->count == 0)
        return 0;
    long got = -1;
    for (int tries = 0; tries < PROBE_TRIES && got != bytes; tries++) {
        got = syscall(SYS_read, probes->fd[0], reading, bytes);
        if (got < 0 && errno != ECHILD) /* that is: a thread is just beginning or ending, and has a part of the group only */
            break;
    }
    if (got != bytes)
        return -1;
    for (uint32_t i = 0; i < probes->count; i++)
        if (header->probe[i].metric < header->software)
            software[header->probe[i].metric] += reading[1 + i];
    return 0;
}

void unperturbed_perf_close(struct unperturbed_counters *counters)
{
    for (uint32_t i = 0; i < counters->events; i++) {
        if (counters->page[i])
            munmap(counters->page[i], (size_t)sysconf(_SC_PAGESIZE));
        if (counters->fd[i] >= 0)
            close(counters->fd[i]);
    }
    counters->events = 0;
}
