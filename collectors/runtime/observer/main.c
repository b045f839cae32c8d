/* The outside sampler: observer RECORD PROGRAM ARGUMENTS…
 *
 * Starts the program and reads, in each interval, a group of events that the program and its threads inherit, together
 * with the software counters in memory that the program's start-up code shares with the observer. The program receives
 * no signal and executes no instruction for a record. Reading a counter of a task on a different processor interrupts
 * that processor (about 10 us); these interrupts are counted. Ends like the program: same exit code, or same signal.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"
#include "../common/sources.h"
#include "shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_IMAGE_NS 16000000
#define AFTERWARDS_MS 10 /* between two looks whether processes that outlive the program have ended */
#define ENDING_TRIES 200
#define ENDING_PAUSE_NS 10000
#define FROZEN_SHARE 0.9
#define FROZEN_SLACK_US 30000 /* three jiffies of the slowest kernels: CPU time may be counted in ticks */
#define SWITCH_US 10          /* CPU time of a context switch that the task clock may lack: 1 to 7 us were measured */

struct observed {
    pid_t pid;
    int has_ended; /* and `status` and `usage` are known */
    int status;
    struct rusage usage;
    int watch; /* pidfd */
    struct unperturbed_counters counters;
    struct unperturbed_counters task_clock;
    struct unperturbed_probes probes;
    struct unperturbed_os_files os_files;
    int64_t os_value[UNPERTURBED_USAGE + UNPERTURBED_SCHEDULER + UNPERTURBED_IO];
    int64_t checked_ns;
    char image[256];
};

/* Assigns one processor to the observer and the others to the program, if there are at least two. */
static int share_processors(cpu_set_t *program)
{
    cpu_set_t all, own;
    int chosen = unperturbed_header->observer_cpu;
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return unperturbed_refuse("sched_getaffinity");
    *program = all;
    if (chosen == -2 || CPU_COUNT(&all) < 2)
        return 0;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && chosen == -1; cpu--)
        if (CPU_ISSET(cpu, &all))
            chosen = cpu;
    if (!CPU_ISSET(chosen, &all)) {
        errno = EINVAL;
        return unperturbed_refuse("the observer may not use the processor that was chosen for it");
    }
    CPU_ZERO(&own);
    CPU_SET(chosen, &own);
    CPU_CLR(chosen, program);
    if (sched_setaffinity(0, sizeof own, &own) != 0)
        return unperturbed_refuse("sched_setaffinity");
    unperturbed_header->observer_cpu = chosen;
    unperturbed_mark(MARK_PINNED);
    return 0;
}

/* Adds the library to preload into the program only: here, it would share this process's symbols. */
static void preload(void)
{
    const char *ours = getenv("UNPERTURBED_PRELOAD"), *own = getenv("LD_PRELOAD");
    char *both;
    if (ours && *ours && asprintf(&both, "%s%s%s", ours, own && *own ? ":" : "", own ? own : "") > 0)
        setenv("LD_PRELOAD", both, 1);
    unsetenv("UNPERTURBED_PRELOAD");
}

/* Forks a child that waits for a message on `go`, then executes the program; on failure, it writes the reason to
 * `trouble`. */
static pid_t start_waiting(char **arguments, const cpu_set_t *processors, int go[2], int trouble[2])
{
    if (pipe2(go, O_CLOEXEC) != 0 || pipe2(trouble, O_CLOEXEC) != 0)
        return unperturbed_refuse("pipe");
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return unperturbed_refuse("fork");
    if (pid == 0) {
        char word;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(127);
        sched_setaffinity(0, sizeof *processors, processors);
        close(go[1]);
        if (read(go[0], &word, 1) != 1)
            _exit(127);
        preload();
        execvp(arguments[0], arguments);
        int error = errno;
        if (write(trouble[1], &error, sizeof error) < 0)
            _exit(126);
        _exit(127);
    }
    close(go[0]);
    close(trouble[1]);
    return pid;
}

/* Opens the task clock of the program's threads: CPU time that increases while it stands still reveals stopped
 * counters. */
static void open_task_clock(struct observed *observed)
{
    static struct unperturbed_header clock;
    clock.source = SOURCE_PERF;
    clock.events = 1;
    clock.options = OPTION_CHILDREN; /* like the CPU time that wait4(2) returns */
    clock.event[0].type = PERF_TYPE_SOFTWARE;
    clock.event[0].config = PERF_COUNT_SW_TASK_CLOCK;
    if (unperturbed_open(&observed->task_clock, &clock, observed->pid) != 0)
        observed->task_clock.events = 0; /* no comparison then */
}

/* The kernel refuses a group only with `Invalid argument`. PAPI reports the reason if it opens the events on this
 * process; attached to another process, PAPI accepts events that cannot be counted together. */
static void let_papi_explain(void)
{
    struct unperturbed_header *header = unperturbed_header;
    struct unperturbed_counters asked;
    char of_the_kernel[sizeof header->message];
    memset(&asked, 0, sizeof asked);
    memcpy(of_the_kernel, header->message, sizeof of_the_kernel);
    if (unperturbed_open(&asked, header, 0) == 0) {
        unperturbed_close(&asked);
        memcpy(header->message, of_the_kernel, sizeof of_the_kernel);
    }
}

static int open_counters(struct observed *observed)
{
    struct unperturbed_header *header = unperturbed_header;
    uint32_t source = header->source;
    /* PAPI encodes the events, and perf_event reads them as one group; presets computed from several events must be
     * read by PAPI. */
    int encoded = unperturbed_encode(header);
    if (encoded < 0)
        return -1;
    int by_group = encoded && source != SOURCE_PERF;
    int result = unperturbed_open_by(by_group ? SOURCE_PERF : source, &observed->counters, header, observed->pid);
    if (result != 0 && by_group)
        let_papi_explain();
    open_task_clock(observed);
    if (result == 0 && header->probes && source == SOURCE_CALLGRIND) {
        /* Valgrind would treat the kernel's breakpoint as an instruction of the program, and end the program. */
        errno = ENOTSUP;
        return unperturbed_refuse(
            "kernel probes do not work under valgrind; use hardware or kernel counters, or leave them out");
    }
    if (result == 0)
        result = unperturbed_probes_open(&observed->probes, header, observed->pid);
    return result == 0 ? unperturbed_os_open(&observed->os_files, header->os, observed->pid) : -1;
}

/* An image other than the one that attached has its own counters, which nobody reads. */
static void check_image(struct observed *observed, int64_t now_ns)
{
    char path[64], image[sizeof observed->image] = "";
    if ((unperturbed_header->options & OPTION_CHILDREN) || now_ns - observed->checked_ns < CHECK_IMAGE_NS ||
        !__atomic_load_n(&unperturbed_header->owner, __ATOMIC_RELAXED))
        return;
    observed->checked_ns = now_ns;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)unperturbed_header->owner);
    if (readlink(path, image, sizeof image - 1) <= 0)
        return;
    if (!observed->image[0])
        memcpy(observed->image, image, sizeof image);
    else if (strcmp(observed->image, image) != 0)
        unperturbed_mark(MARK_EXEC);
}

static int read_counts(struct observed *observed, struct unperturbed_record *record, int64_t *software)
{
    return unperturbed_read(&observed->counters, record) != 0 ||
           unperturbed_probes_read(&observed->probes, unperturbed_header, software) != 0;
}

static void observe(struct observed *observed, uint64_t overruns, int has_ended)
{
    struct unperturbed_header *header = unperturbed_header;
    uint64_t position;
    struct unperturbed_record *record = unperturbed_begin_record(overruns, &position);
    if (!record)
        return;
    int64_t *value = record->value + header->events * (header->options & OPTION_MULTIPLEX ? 3 : 1);
    int unread = read_counts(observed, record, value + header->os_values);
    const struct timespec pause = {0, ENDING_PAUSE_NS};
    for (int tries = 0; unread && errno == ECHILD && tries < ENDING_TRIES; tries++) {
        nanosleep(&pause, NULL); /* a thread is just ending, and has closed its part of the group */
        unread = read_counts(observed, record, value + header->os_values);
    }
    unread |= unperturbed_read_shared(value + header->os_values) != 0;
    if (header->os) {
        /* Some values of a process that has ended cannot be read: the last values remain. */
        unread |=
            unperturbed_os_read(&observed->os_files, header->os, observed->pid, observed->os_value) != 0 && !has_ended;
        memcpy(value, observed->os_value, header->os_values * sizeof *value);
    }
    if (unperturbed_end_record(record, position, unread) == 0)
        check_image(observed, record->monotonic_ns);
}

/* Returns the function call interrupts on other processors since boot: from reading counters there, and from the
 * kernel's own purposes. */
static uint64_t interrupts_elsewhere(void)
{
    FILE *file = fopen("/proc/interrupts", "re");
    char *line = NULL;
    size_t size = 0;
    uint64_t sum = 0;
    while (file && getline(&line, &size, file) > 0) {
        if (!strstr(line, "unction call interrupts"))
            continue;
        char *rest = strchr(line, ':'), *end;
        for (long cpu = 0; rest; cpu++, rest = end) {
            unsigned long count = strtoul(rest + (cpu == 0), &end, 10);
            if (end == rest + (cpu == 0))
                break;
            if (cpu != unperturbed_header->observer_cpu)
                sum += count;
        }
    }
    free(line);
    if (file)
        fclose(file);
    return sum;
}

/* Receives the signals of the event that ends intervals through a descriptor: poll(2) does not report an inherited
 * event without a ring buffer, and the kernel gives it none. At most one signal is pending; the event's count shows how
 * many overflows it represents. The child, created before, has this process's old signal mask. */
static int start_listening(const struct observed *observed)
{
    sigset_t overflow;
    sigemptyset(&overflow);
    sigaddset(&overflow, SIGURG);
    int signals =
        sigprocmask(SIG_BLOCK, &overflow, NULL) == 0 ? signalfd(-1, &overflow, SFD_CLOEXEC | SFD_NONBLOCK) : -1;
    return signals >= 0 && unperturbed_overflow_start(&observed->counters, getpid(), SIGURG) == 0
               ? signals
               : unperturbed_refuse("cannot receive the overflow's signal");
}

/* Records the kernel's throttling parameters. */
static void note_limits(void)
{
    FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "re");
    struct timespec tick;
    if (!file)
        return;
    if (fscanf(file, "%u", &unperturbed_header->sample_rate) == 1 && clock_getres(CLOCK_MONOTONIC_COARSE, &tick) == 0)
        unperturbed_header->tick_ns = (uint32_t)tick.tv_nsec;
    fclose(file);
}

static void add_time(struct timeval *sum, const struct timeval *more)
{
    sum->tv_sec += more->tv_sec;
    sum->tv_usec += more->tv_usec;
}

/* Takes leave of processes that have ended: the program, and processes that outlived the one that created them, whose
 * parent is then the observer. Returns whether none is left. The program's counters in /proc are read before. */
static int are_gone(struct observed *observed)
{
    for (;;) {
        siginfo_t next;
        struct rusage usage;
        int status;
        next.si_pid = 0;
        if (waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) != 0) {
            if (errno == EINTR)
                continue;
            return 1;
        }
        if (next.si_pid == 0)
            return 0;
        if (next.si_pid == observed->pid)
            unperturbed_os_read(&observed->os_files, unperturbed_header->os, observed->pid, observed->os_value);
        if (wait4(next.si_pid, &status, 0, &usage) < 0)
            continue;
        if (next.si_pid == observed->pid) {
            observed->status = status;
            observed->has_ended = 1;
        }
        add_time(&observed->usage.ru_utime, &usage.ru_utime);
        add_time(&observed->usage.ru_stime, &usage.ru_stime);
        observed->usage.ru_nvcsw += usage.ru_nvcsw;
        observed->usage.ru_nivcsw += usage.ru_nivcsw;
    }
}

/* Until the program has ended; if child processes count, until all of them have. */
static void watch_until_the_end(struct observed *observed, int ticks)
{
    struct pollfd events[2] = {{ticks, POLLIN, 0}, {observed->watch, POLLIN, 0}};
    int children = !!(unperturbed_header->options & OPTION_CHILDREN);
    union {
        uint64_t expirations;
        struct signalfd_siginfo overflow;
    } news;
    for (;;) {
        if (poll(events, 2, observed->has_ended ? AFTERWARDS_MS : -1) < 0)
            continue;
        if (events[1].revents && (!children || are_gone(observed)))
            break;
        if (events[1].revents && observed->has_ended)
            events[1].fd = -1; /* processes that it created go on */
        if (children && are_gone(observed))
            break;
        ssize_t size = read(ticks, &news, sizeof news);
        if (size == (ssize_t)sizeof news.expirations)
            observe(observed, news.expirations - 1, observed->has_ended);
        else if (size == (ssize_t)sizeof news.overflow)
            observe(observed, 0, observed->has_ended);
    }
    observe(observed, 0, 1);
}

static void compare_times(struct observed *observed, const struct rusage *usage)
{
    static int64_t room[sizeof(struct unperturbed_record) / sizeof(int64_t) + 1];
    struct unperturbed_record *clock = (struct unperturbed_record *)room;
    int64_t spent_us = unperturbed_header->program_user_us + unperturbed_header->program_system_us;
    if (observed->task_clock.events == 0 || unperturbed_read(&observed->task_clock, clock) != 0)
        return;
    double counted_us = (double)clock->value[0] / 1000;
    spent_us -= (int64_t)(usage->ru_nvcsw + usage->ru_nivcsw) * SWITCH_US;
    if (counted_us < FROZEN_SHARE * (double)spent_us - FROZEN_SLACK_US)
        unperturbed_mark(MARK_FROZEN);
}

static void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none); /* only the program's core dump is of interest */
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 127);
}

int main(int count, char **argument)
{
    struct observed observed;
    int go[2], trouble[2], error = EPIPE;
    cpu_set_t processors;
    if (count < 3 || unperturbed_map(argument[1]) != 0) {
        fprintf(stderr, "usage: observer RECORD PROGRAM [ARGUMENT…]\n");
        return 2;
    }
    memset(&observed, 0, sizeof observed);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unperturbed_header->options & OPTION_CHILDREN)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    if (unperturbed_share() != 0 || share_processors(&processors) != 0)
        return 127;
    observed.pid = start_waiting(argument + 2, &processors, go, trouble);
    if (observed.pid < 0)
        return 127;
    observed.watch = (int)syscall(SYS_pidfd_open, observed.pid, 0);
    if (observed.watch < 0 || open_counters(&observed) != 0) {
        if (observed.watch < 0)
            unperturbed_refuse("pidfd_open");
        __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
        kill(observed.pid, SIGKILL);
        return 127;
    }
    struct sched_param priority = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &priority) == 0)
        unperturbed_mark(MARK_REAL_TIME);
    uint64_t interrupts = interrupts_elsewhere();
    int64_t began_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC);
    observe(&observed, 0, 0); /* before the program runs: an observer with normal priority might be late */
    int is_event = unperturbed_header->clock == CLOCK_IS_EVENT;
    int ticks = is_event ? start_listening(&observed) : unperturbed_start_ticking();
    if (ticks < 0) {
        kill(observed.pid, SIGKILL);
        return 127;
    }
    if (write(go[1], "g", 1) != 1 || read(trouble[0], &error, sizeof error) == (ssize_t)sizeof error) {
        errno = error;
        unperturbed_refuse(argument[2]);
        return 127;
    }
    watch_until_the_end(&observed, ticks);
    if (is_event)
        note_limits();
    while (!observed.has_ended && wait4(observed.pid, &observed.status, 0, &observed.usage) < 0 && errno == EINTR)
        ;
    struct unperturbed_header *header = unperturbed_header;
    header->program_wall_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC) - began_ns;
    header->program_user_us = (int64_t)observed.usage.ru_utime.tv_sec * 1000000 + observed.usage.ru_utime.tv_usec;
    header->program_system_us = (int64_t)observed.usage.ru_stime.tv_sec * 1000000 + observed.usage.ru_stime.tv_usec;
    header->interrupts = interrupts_elsewhere() - interrupts;
    compare_times(&observed, &observed.usage);
    if (header->state != STATE_FAILED && (header->state == STATE_ATTACHED || header->software == header->probes))
        __atomic_store_n(&header->state, STATE_FINISHED, __ATOMIC_RELEASE);
    end_as(observed.status);
    return 127;
}
