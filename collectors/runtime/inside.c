/* The inside sampler: a timer signal in the measured thread writes one record a tick (003, section 3.1).
 *
 * It sleeps unless UNPERTURBED_RECORD names a record file that nobody has claimed. What a tick costs in the program: the signal's delivery and return
 * (about 4 us), the source's one read, about 30 ns for 64 software counters; no allocation, no lock, errno untouched.
 */
#define _GNU_SOURCE
#include "runtime.h"
#include "sources.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__has_include)
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#endif
#endif
#ifndef CALLGRIND_DUMP_STATS_AT
#define CALLGRIND_DUMP_STATS_AT(label) ((void)(label))
#define CALLGRIND_TOGGLE_COLLECT ((void)0)
#define RUNNING_ON_VALGRIND 0
#endif

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Far shorter than a simulator's quantum, so that a tick waits at the end of each. */
#define WORK_TICK_NS 500000

struct unperturbed_sampler {
    struct unperturbed_counters counters;
    timer_t timer;
    pid_t thread_id;
    uint32_t thread; /* number in the record file; 0 is the main thread */
    uint64_t quanta; /* on the work clock: quanta of the simulator since the last record */
    volatile sig_atomic_t busy;
};

static struct unperturbed_sampler main_sampler;
static struct unperturbed_os_files os_files;

static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

static int is_simulated(void) { return unperturbed_header->source == SOURCE_CALLGRIND; }

/* Has callgrind end an interval that carries the record's number: its dumps hold the events since the dump before. */
static void dump_simulated(uint64_t position)
{
    char label[24] = "interval ";
    char digits[12];
    int count = 0, end = 9;
    do
        digits[count++] = (char)('0' + position % 10);
    while ((position /= 10) && count < (int)sizeof digits);
    while (count)
        label[end++] = digits[--count];
    label[end] = 0;
    CALLGRIND_DUMP_STATS_AT(label);
}

static clockid_t interval_clock(void)
{
    switch (unperturbed_header->clock) {
    case CLOCK_IS_PROCESS_CPU:
        return CLOCK_PROCESS_CPUTIME_ID;
    case CLOCK_IS_THREAD_CPU:
        return CLOCK_THREAD_CPUTIME_ID;
    default:
        return CLOCK_MONOTONIC;
    }
}

static void write_record(struct unperturbed_sampler *sampler, int overruns)
{
    struct unperturbed_header *header = unperturbed_header;
    struct unperturbed_record *record = unperturbed_take();
    if (!record)
        return;
    record->thread = sampler->thread;
    record->overruns = (uint64_t)overruns;
    record->monotonic_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC);
    if (unperturbed_read(&sampler->counters, record) != 0)
        __atomic_fetch_add(&header->unread, 1, __ATOMIC_RELAXED);
    if (header->clock != CLOCK_IS_MONOTONIC)
        record->cpu_ns = unperturbed_nanoseconds(header->clock == CLOCK_IS_THREAD_CPU ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID);
    int64_t *value = record->value + header->events * (header->options & OPTION_MULTIPLEX ? 3 : 1);
    if (header->os)
        unperturbed_os_read(&os_files, header->os, 0, value);
    unperturbed_read_software(value + header->os_values);
    record->read_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC) - record->monotonic_ns;
    if (is_simulated())
        dump_simulated((uint64_t)((char *)record - (char *)header - header->header_bytes) / header->record_bytes);
    unperturbed_commit(record);
}

#if defined(__x86_64__)
#include <ucontext.h>
/* Tells whether the tick came by a system call that waited, not at the end of a quantum: the word before the next instruction is `syscall`. */
static int in_system_call(void *context)
{
    const unsigned char *next = (const unsigned char *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    return next[-2] == 0x0f && next[-1] == 0x05;
}
#else
static int in_system_call(void *context)
{
    (void)context;
    return 0;
}
#endif

static void on_tick(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    struct unperturbed_sampler *sampler = info->si_value.sival_ptr;
    if (info->si_code != SI_TIMER || !sampler)
        return; /* somebody else's */
    if (sampler->busy) {
        __atomic_fetch_add(&unperturbed_header->nested, 1, __ATOMIC_RELAXED);
        return;
    }
    if (unperturbed_header->clock == CLOCK_IS_WORK) {
        if (in_system_call(context) || ++sampler->quanta < unperturbed_header->interval_ns)
            return;
        sampler->quanta = 0;
    }
    sampler->busy = 1;
    int saved = errno;
    if (is_simulated())
        CALLGRIND_TOGGLE_COLLECT;
    write_record(sampler, unperturbed_header->clock == CLOCK_IS_WORK ? 0 : info->si_overrun);
    if (is_simulated())
        CALLGRIND_TOGGLE_COLLECT;
    errno = saved;
    sampler->busy = 0;
}

static int take_signal(void)
{
    struct sigaction action, before;
    if (sigaction((int)unperturbed_header->signal, NULL, &before) != 0)
        return unperturbed_fail("the sampler's signal");
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        errno = EBUSY;
        return unperturbed_fail("the program already handles the sampler's signal");
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART | (unperturbed_header->options & OPTION_ALTERNATE_STACK ? SA_ONSTACK : 0);
    sigemptyset(&action.sa_mask);
    return sigaction((int)unperturbed_header->signal, &action, NULL) == 0 ? 0 : unperturbed_fail("the sampler's signal");
}

static int start_timer(struct unperturbed_sampler *sampler)
{
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID; /* a process-directed timer would read the counters of whichever thread it hits */
    event.sigev_signo = (int)unperturbed_header->signal;
    event.sigev_value.sival_ptr = sampler;
    event.sigev_notify_thread_id = sampler->thread_id;
    if (timer_create(interval_clock(), &event, &sampler->timer) != 0)
        return unperturbed_fail("timer_create");
    uint64_t period_ns = unperturbed_header->clock == CLOCK_IS_WORK ? WORK_TICK_NS : unperturbed_header->interval_ns;
    struct itimerspec period;
    period.it_interval.tv_sec = (time_t)(period_ns / 1000000000);
    period.it_interval.tv_nsec = (long)(period_ns % 1000000000);
    period.it_value = period.it_interval;
    return timer_settime(sampler->timer, 0, &period, NULL) == 0 ? 0 : unperturbed_fail("timer_settime");
}

static int open_source(struct unperturbed_sampler *sampler)
{
    if (is_simulated() && !RUNNING_ON_VALGRIND) {
        unperturbed_header->error = ENOSYS;
        snprintf(unperturbed_header->message, sizeof unperturbed_header->message,
                 "the program does not run under callgrind, or valgrind's headers were missing when it was built");
        return -1;
    }
    return unperturbed_open(&sampler->counters, unperturbed_header, 0);
}

/* The record that begins a thread's first interval, or ends its last one. */
static void write_bound(struct unperturbed_sampler *sampler)
{
    sampler->busy = 1;
    if (is_simulated())
        CALLGRIND_TOGGLE_COLLECT;
    write_record(sampler, 0);
    if (is_simulated())
        CALLGRIND_TOGGLE_COLLECT;
    sampler->busy = 0;
}

struct unperturbed_sampler *unperturbed_sampler_start(void)
{
    struct unperturbed_header *header = unperturbed_header;
    pid_t thread = this_thread();
    struct unperturbed_sampler *sampler = thread == (pid_t)header->owner ? &main_sampler : calloc(1, sizeof *sampler);
    if (!sampler)
        return NULL;
    sampler->thread_id = thread;
    sampler->thread = (uint32_t)__atomic_fetch_add(&header->threads, 1, __ATOMIC_RELAXED);
    if (open_source(sampler) == 0 && start_timer(sampler) == 0) {
        write_bound(sampler);
        return sampler;
    }
    __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
    if (sampler != &main_sampler)
        free(sampler);
    return NULL;
}

void unperturbed_sampler_stop(struct unperturbed_sampler *sampler)
{
    /* The signal may be on its way: it finds the sampler busy. */
    sampler->busy = 1;
    timer_delete(sampler->timer);
    write_bound(sampler);
    sampler->busy = 1;
    unperturbed_close(&sampler->counters);
    if (sampler != &main_sampler) {
        sigset_t ours;
        sigemptyset(&ours);
        sigaddset(&ours, (int)unperturbed_header->signal);
        pthread_sigmask(SIG_BLOCK, &ours, NULL); /* a tick that is still pending must not find freed memory */
        free(sampler);
    }
}

/* After every other constructor of the executable, so that their work is not counted as the program's first interval. */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    if (unperturbed_claim(environment) != 0)
        return;
    struct unperturbed_header *header = unperturbed_header;
    if (header->owner != (uint64_t)getpid() || header->state == STATE_FAILED)
        return;
    unperturbed_watch_forks();
    if (header->options & OPTION_OUTSIDE) {
        __atomic_store_n(&header->state, STATE_ATTACHED, __ATOMIC_RELEASE);
        return;
    }
    header->tables = unperturbed_tables();
    if (unperturbed_os_open(&os_files, header->os, 0) == 0 && take_signal() == 0 && unperturbed_sampler_start())
        __atomic_store_n(&header->state, STATE_ATTACHED, __ATOMIC_RELEASE);
    else
        __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
}

static void judge_signal(void)
{
    struct sigaction now;
    sigset_t blocked;
    if (sigaction((int)unperturbed_header->signal, NULL, &now) == 0 && now.sa_sigaction != on_tick)
        unperturbed_mark(MARK_SIGNAL_TAKEN);
    if (pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && sigismember(&blocked, (int)unperturbed_header->signal) == 1)
        unperturbed_mark(MARK_SIGNAL_BLOCKED);
}

/* The last record: the interval that the program's end cut short. A forked child shares the mapping and must stay silent. */
__attribute__((destructor)) static void finish(void)
{
    struct unperturbed_header *header = unperturbed_header;
    if (!header)
        return;
    if (unperturbed_counts_elsewhere())
        unperturbed_mark(MARK_SHARED_FORK);
    if (header->state != STATE_ATTACHED || header->owner != (uint64_t)getpid() || (header->options & OPTION_OUTSIDE))
        return;
    if (main_sampler.counters.user_reads)
        unperturbed_mark(MARK_USER_READ);
    if (this_thread() != main_sampler.thread_id)
        return; /* exit(3) by another thread, which cannot read the main thread's counters */
    judge_signal();
    unperturbed_sampler_stop(&main_sampler);
    __atomic_store_n(&header->state, STATE_FINISHED, __ATOMIC_RELEASE);
}
