/* perf_event: events of a thread, or of a process with its threads, in a group that one system call reads. */
#define _GNU_SOURCE
#include "../../runtime/common/sources.h"

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
#define FOLLOWS 4
#define ARM64_USER_ACCESS 2 /* attr.config1, bit 1: the kernel may let the thread read the counter itself */

struct single_reading {
    uint64_t value;
    uint64_t enabled;
    uint64_t running;
};

/* `processor`: the only processor on which a cgroup's event counts; `pid` is then the cgroup's descriptor. -1: any. */
static int open_event(const struct unperturbed_event *event, uint32_t options, pid_t pid, int processor, int leader,
                      uint64_t access, uint64_t period)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = event->type;
    attr.config = event->config;
    attr.config1 = event->config1 | access;
    attr.config2 = event->config2;
    attr.sample_period = period; /* 0: count without interrupts */
    attr.wakeup_events = period > 0;
    attr.disabled = leader < 0;
    attr.exclude_kernel = !(event->flags & KERNEL_TOO);
    attr.exclude_user = !!(event->flags & NOT_USER);
    attr.exclude_hv = attr.exclude_kernel; /* a PMU that counts everywhere refuses all exclusions */
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    if (!(options & OPTION_MULTIPLEX))
        attr.read_format |= PERF_FORMAT_GROUP;
    if (pid && processor < 0) {
        attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
        attr.inherit_thread = !(options & OPTION_CHILDREN);
#endif
        attr.enable_on_exec = leader < 0 && !(options & OPTION_ATTACHED);
    }
    unsigned long flags = PERF_FLAG_FD_CLOEXEC | (processor < 0 ? 0 : PERF_FLAG_PID_CGROUP);
    return (int)syscall(SYS_perf_event_open, &attr, pid, processor, leader, flags);
}

static int failed(struct unperturbed_header *header, const char *what, const char *name)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message, "%s%s: %s", what, name, strerror(errno));
    return -1;
}

/* Returns whether the kernel refuses an event only because of its mode: the PMU counts user space and the kernel
 * together, and can exclude neither (as on a RISC-V processor without Sscofpmf). */
static int counts_everywhere_only(const struct unperturbed_event *event, uint32_t options, pid_t pid, int processor)
{
    struct unperturbed_event everywhere = *event;
    everywhere.flags = KERNEL_TOO;
    int as_asked = open_event(event, options, pid, processor, -1, 0, 0);
    int in_both = as_asked < 0 ? open_event(&everywhere, options, pid, processor, -1, 0, 0) : -1;
    if (as_asked >= 0)
        close(as_asked);
    if (in_both >= 0)
        close(in_both);
    return in_both >= 0;
}

static int no_event(struct unperturbed_header *header, const struct unperturbed_event *event, pid_t pid, int processor)
{
    int invalid = errno == EINVAL, forbidden = errno == EACCES || errno == EPERM;
    failed(header, "perf_event_open of ", event->name);
    size_t length = strlen(header->message);
    if (invalid && counts_everywhere_only(event, header->options, pid, processor))
        snprintf(header->message + length, sizeof header->message - length,
                 " (this PMU cannot leave the kernel out; count in both with the modifier :uk)");
    if (forbidden && (header->options & OPTION_ATTACHED))
        snprintf(header->message + length, sizeof header->message - length,
                 processor < 0
                     ? " (another user's process; run as that user or as root, or with CAP_PERFMON)"
                     : " (a cgroup's events need root, CAP_PERFMON or kernel.perf_event_paranoid of 0 or less)");
    return -1;
}

/* The event that ends intervals must be able to interrupt, which not every event is. */
static int no_overflow(struct unperturbed_header *header, const char *name)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message,
             errno == EINVAL || errno == EOPNOTSUPP
                 ? "%s cannot end intervals here, as the kernel cannot interrupt every %llu counts: %s"
                 : "perf_event_open of %s every %llu counts: %s",
             name, (unsigned long long)header->interval_ns, strerror(errno));
    return -1;
}

/* The event that ends intervals has, after the page for reading, a page for the kernel's throttling records. */
static size_t page_bytes(const struct unperturbed_counters *counters, uint32_t event)
{
    return (size_t)sysconf(_SC_PAGESIZE) * (event + 1 == counters->overflow ? 2 : 1);
}

/* Maps the page with the information for reading an event in user space; returns whether the kernel allows it. */
static int map_page(struct unperturbed_counters *counters, uint32_t event)
{
    int access = event + 1 == counters->overflow ? PROT_READ | PROT_WRITE : PROT_READ;
    struct perf_event_mmap_page *page =
        mmap(NULL, page_bytes(counters, event), access, MAP_SHARED, counters->fd[event], 0);
    counters->page[event] = page == MAP_FAILED ? NULL : page;
    return page != MAP_FAILED && page->cap_user_rdpmc;
}

static int open_events(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    uint32_t options = header->options;
    int processor = counters->processor - 1;
    int user_read = (options & OPTION_USER_READ) && !pid && !(options & (OPTION_MULTIPLEX | OPTION_RESET));
    int leads = -1; /* the group's descriptor; if multiplexed, the last group's */
    for (uint32_t i = 0; i < header->events; i++) {
        const struct unperturbed_event *event = &header->event[i];
        int leader = (options & OPTION_MULTIPLEX) && !(event->flags & FOLLOWS) ? -1 : leads;
        int ends_intervals = i + 1 == counters->overflow, fd = -1;
        uint64_t period = ends_intervals ? header->interval_ns : 0;
#if defined(__aarch64__)
        if (user_read)
            fd = open_event(event, options, pid, processor, leader, ARM64_USER_ACCESS, period);
#endif
        if (fd < 0)
            fd = open_event(event, options, pid, processor, leader, 0, period);
        if (fd < 0)
            return ends_intervals ? no_overflow(header, event->name) : no_event(header, event, pid, processor);
        counters->fd[i] = fd;
        leads = leader < 0 ? fd : leader;
        /* The kernel does not map buffers of inherited events. */
        int readable = (user_read || (ends_intervals && !pid)) && map_page(counters, i);
        if (ends_intervals && !pid && !counters->page[i])
            return failed(header, "no memory for overflows (raise kernel.perf_event_mlock_kb) of ", event->name);
        user_read = user_read && readable;
    }
    if (!user_read)
        counters->options &= ~(uint32_t)OPTION_USER_READ;
    int running = !pid || (options & OPTION_ATTACHED); /* otherwise, the program's start enables the events */
    for (uint32_t i = 0; i < (options & OPTION_MULTIPLEX ? header->events : header->events > 0) && running; i++)
        if (ioctl(counters->fd[i], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP) != 0)
            return failed(header, "cannot enable the event group", "");
    return 0;
}

#if defined(__x86_64__) || defined(__i386__)
#define TOPDOWN_METRICS (1u << 29) /* not a count: fractions of the slots, which only the kernel converts to counts */

static int read_register(uint32_t index, uint64_t *value)
{
    uint32_t low, high;
    if (index == TOPDOWN_METRICS)
        return -1;
    __asm__ __volatile__("rdpmc" : "=a"(low), "=d"(high) : "c"(index));
    *value = low | (uint64_t)high << 32;
    return 0;
}
#elif defined(__aarch64__)
#define ONE(n) \
    case n: \
        __asm__ __volatile__("mrs %0, pmevcntr" #n "_el0" : "=r"(*value)); \
        return 0;
#define FOUR(a, b, c, d) ONE(a) ONE(b) ONE(c) ONE(d)
static int read_register(uint32_t index, uint64_t *value)
{
    switch (index) {
        FOUR(0, 1, 2, 3)
        FOUR(4, 5, 6, 7)
        FOUR(8, 9, 10, 11)
        FOUR(12, 13, 14, 15)
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

/* Reads one counter in user space, as linux/perf_event.h describes: again if the kernel has moved the event meanwhile.
 * Returns -1 if a system call is necessary: the event is not on a counter, or was not on one all the time. The enabled
 * time is that of the kernel's last update. */
static int read_page(const struct perf_event_mmap_page *page, int64_t *count, uint64_t *enabled)
{
    uint32_t sequence;
    do {
        uint64_t raw;
        sequence = __atomic_load_n(&page->lock, __ATOMIC_ACQUIRE);
        uint32_t index = page->index;
        if (!page->cap_user_rdpmc || index == 0 || page->time_enabled != page->time_running ||
            read_register(index - 1, &raw) != 0)
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

/* Reads directly into the record. The number of events is read into read_ns, which is overwritten after the reading.
 * Uses syscall(2): read(2) is a cancellation point, but the program did not call it. */
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

/* The paper's method: counters are stopped while they are read, and restart from zero. Members first and the leader
 * last: if they were enabled as a group, the kernel would omit members on a PMU other than the leader's. */
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

/* Separate from the usual path, which must be short. */
static __attribute__((noinline)) int read_as_asked(struct unperturbed_counters *counters,
                                                   struct unperturbed_record *record)
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

/* One read(2), about 1 us; in user space, about 30 ns per event; with OPTION_RESET, four system calls. */
static int read_events(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    if (counters->events == 0)
        return 0;
    if (!(counters->options & (OPTION_MULTIPLEX | OPTION_RESET | OPTION_USER_READ)))
        return read_group(counters, record);
    return read_as_asked(counters, record);
}

static void close_events(struct unperturbed_counters *counters)
{
    for (uint32_t i = 0; i < counters->events; i++) {
        if (counters->page[i])
            munmap(counters->page[i], page_bytes(counters, i));
        if (counters->fd[i] >= 0)
            close(counters->fd[i]);
    }
    counters->events = 0;
}

const struct unperturbed_source unperturbed_perf = {open_events, read_events, close_events, NULL, 0, close_events};
