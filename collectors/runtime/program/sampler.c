/* The inside sampler: the handler of a signal in the measured thread writes one record per tick; a tick comes from a
 * timer (003, section 3.1) or from an event's overflow. At intervals of the program's own events, a site of the program
 * calls instead of a signal.
 *
 * The sampler is inactive unless UNPERTURBED_RECORD names an unclaimed record file. The cost of a tick in the program:
 * delivery of the signal and return (about 4 us), one reading of the source, about 30 ns for 64 software counters; no
 * allocation, no lock, errno unchanged.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"
#include "../common/sources.h"
#include "quanta.h"
#include "regions.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define HIGH_DESCRIPTOR 512

struct unperturbed_sampler {
    struct unperturbed_member member;
    struct unperturbed_counters counters;
    timer_t timer;
    timer_t at_rest; /* on the work clock, by the thread's CPU time: for a thread that may wait */
    pid_t thread_id;
    struct quanta quanta; /* on the work clock: the main thread's are those of all threads */
    volatile sig_atomic_t busy, ended;
    struct regions regions;
};

static struct unperturbed_sampler main_sampler;
static struct unperturbed_os_files os_files;
/* The probes of all threads; closed by the process's exit, which waits about 70 ms for each. */
static struct unperturbed_probes probes;
static int begun;
static uint32_t reading; /* the source that reads the events: the header's, or perf_event for it */

/* The calling thread's sampler: a late tick, or a tick of one of the program's timers, finds a different one or none.
 * Its address is fixed at load time: access allocates nothing. */
static __thread struct unperturbed_sampler *own __attribute__((tls_model("initial-exec")));

__attribute__((weak, visibility("default"), tls_model("initial-exec"))) __thread int unperturbed_apart;

/* Whether the C library has ever had a second thread; if the library does not report this, assume that it has. */
extern char __libc_single_threaded __attribute__((weak));
static int is_threaded(void) { return !&__libc_single_threaded || !__libc_single_threaded; }

/* Entries and leavings of regions under the simulator, which takes about 1 ms for each, and writes 2 KB to the disk. */
#define MOST_CROSSINGS 200000
static uint64_t crossings;
#define CROSSING_BLOCKS 11 /* that it takes of a quantum */
#define INNER_BLOCKS 8     /* the same within a call of the region */

static pid_t this_thread(void) { return (pid_t)syscall(SYS_gettid); }

static int is_by_program(void) { return unperturbed_header->clock == CLOCK_IS_PROGRAM; }

static int is_simulated(void) { return unperturbed_header->source == SOURCE_CALLGRIND; }

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

static __thread int pauses __attribute__((tls_model("initial-exec")));

void unperturbed_pause(void)
{
    if (unperturbed_header && is_simulated() && pauses++ == 0)
        CALLGRIND_TOGGLE_COLLECT;
}

void unperturbed_resume(void)
{
    if (unperturbed_header && is_simulated() && --pauses == 0)
        CALLGRIND_TOGGLE_COLLECT;
}

/* Whether the tick of any thread may end the interval of all. Quanta end in each thread: a main thread that waits for
 * others would get a tick for some of them, and how many depends on the host's load. */
static int is_ticked_by_each(void)
{
    return unperturbed_header->clock == CLOCK_IS_WORK && !unperturbed_counts_each() && TELLS_CALLS;
}

/* Otherwise, under the simulator, where one thread runs at a time, the main thread's tick counts for all threads. On the
 * program's clock, each thread has its own intervals. */
static int is_ticked_by_main(const struct unperturbed_sampler *sampler)
{
    return sampler != &main_sampler && is_simulated() && !is_by_program() && !is_ticked_by_each();
}

/* Ends the interval of the calling thread in the simulator or, with threads one by one, at the main thread's tick those
 * of all threads. */
static APART void record_simulated(const struct unperturbed_sampler *sampler, const struct unperturbed_record *record,
                                   uint64_t position)
{
    if (!unperturbed_counts_each() || sampler != &main_sampler) {
        dump_simulated(position);
        return;
    }
    dump_all_simulated(position);
    if (!is_by_program())
        unperturbed_record_members(record, position);
}

/* `plain`: no regions and no simulator, as constants that the compiler leaves out. */
static inline __attribute__((always_inline)) void write_one(struct unperturbed_sampler *sampler, int overruns,
                                                            int plain)
{
    struct unperturbed_header *header = unperturbed_header;
    uint64_t position;
    struct unperturbed_record *record = unperturbed_take(header, &position);
    if (!record)
        return;
    record->thread = sampler->member.number;
    record->overruns = (uint64_t)overruns;
    record->monotonic_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC);
    int unread = unperturbed_read(&sampler->counters, record);
    if (header->clock != CLOCK_IS_MONOTONIC && header->clock != CLOCK_IS_EVENT && header->clock != CLOCK_IS_PROGRAM)
        record->cpu_ns = unperturbed_nanoseconds(header->clock == CLOCK_IS_THREAD_CPU ? CLOCK_THREAD_CPUTIME_ID
                                                                                      : CLOCK_PROCESS_CPUTIME_ID);
    int64_t *value = record->value + header->events * (header->options & OPTION_MULTIPLEX ? 3 : 1);
    if (header->os | header->probes) {
        unread |= header->os && unperturbed_os_read(&os_files, header->os, 0, value);
        unread |= sampler == &main_sampler && unperturbed_probes_read(&probes, header, value + header->os_values);
    }
    if (unread) { /* a record of zeros would be worse than no record */
        __atomic_fetch_add(&header->unread, 1, __ATOMIC_RELAXED);
        return;
    }
    unperturbed_read_software(value + header->os_values, header->software);
    if (!plain && header->regions && !is_simulated())
        read_regions(&sampler->regions, header, record->value, value + header->os_values);
    record->read_ns = unperturbed_nanoseconds(CLOCK_MONOTONIC) - record->monotonic_ns;
    if (!plain && is_simulated())
        record_simulated(sampler, record, position);
    unperturbed_commit(record, position);
}

static __attribute__((noinline)) void write_record(struct unperturbed_sampler *sampler, int overruns)
{
    write_one(sampler, overruns, 0);
}

/* Sets a thread's next tick, one of several threads on the work clock: soon, so that it is pending when the quantum
 * ends. A thread that waits must get few, as each costs blocks: its next tick comes when it has used CPU time, and that of
 * the main thread at the latest when it must see whether other threads' ticks count. */
static void set_turn(struct unperturbed_sampler *sampler)
{
    struct itimerspec next;
    memset(&next, 0, sizeof next);
    next.it_value.tv_nsec = SHORTEST_TICK_NS;
    timer_settime(sampler->quanta.stood ? sampler->at_rest : sampler->timer, 0, &next, NULL);
    next.it_value.tv_nsec = (long)main_sampler.quanta.tick_ns;
    if (sampler == &main_sampler && sampler->quanta.stood)
        timer_settime(sampler->timer, 0, &next, NULL);
}

static int set_timer(struct unperturbed_sampler *sampler)
{
    int is_work = unperturbed_header->clock == CLOCK_IS_WORK;
    uint64_t period_ns = is_work ? sampler->quanta.tick_ns : unperturbed_header->interval_ns;
    struct itimerspec period;
    period.it_value.tv_sec = (time_t)(period_ns / 1000000000);
    period.it_value.tv_nsec = (long)(period_ns % 1000000000);
    memset(&period.it_interval, 0, sizeof period.it_interval);
    if (!is_work)
        period.it_interval = period.it_value;
    return timer_settime(sampler->timer, 0, &period, NULL);
}

/* PAPI's read(2) is a cancellation point that the program did not call; the sampler's own calls are not. */
static int forbid_cancelling(const struct unperturbed_sampler *sampler, int *before)
{
    return (sampler->counters.source->traits & TRAIT_CANCELLATION_POINT) && is_threaded() &&
           pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, before) == 0;
}

/* The event that ends intervals overflowed. */
static APART void tick_of_an_event(struct unperturbed_sampler *sampler)
{
    write_record(sampler, 0); /* the event's own count shows how many periods passed */
    if (unperturbed_overflow_throttled(&sampler->counters))
        unperturbed_mark(MARK_THROTTLED);
}

/* The signal is from the kernel (not from kill(2) or sigqueue(3)), and for this thread's event. */
static APART int is_overflow(const struct unperturbed_sampler *sampler, const siginfo_t *info)
{
    return sampler->counters.overflow && info->si_code == POLL_IN &&
           info->si_fd == sampler->counters.fd[sampler->counters.overflow - 1];
}

/* Whether the thread waits for another rank of MPI: how long depends on that rank, and it does no work then. */
static int waits_for_a_rank(void) { return os_files.waits && os_files.waits->apart; }

/* A tick of any of several threads, on the work clock: the quanta are those of all, and so is the interval that ends. */
static APART void tick_of_several_threads(struct unperturbed_sampler *sampler, void *context)
{
    struct quanta *quanta = &main_sampler.quanta;
    uint64_t passed = quanta_of_thread(quanta, &sampler->quanta, context);
    if (!main_sampler.ended && !waits_for_a_rank() && (quanta->count += passed) >= unperturbed_header->interval_ns) {
        quanta->count %= unperturbed_header->interval_ns;
        write_record(&main_sampler, 0);
    }
    if (sampler == &main_sampler && quanta->watched)
        ask_for_statistics();
    if (quanta->starved == BY_MAIN)
        begin_anew(quanta);
    else
        set_turn(sampler);
}

/* A separate function: timer ticks with real counters must not pay for it. */
static APART void tick_of_a_simulator(struct unperturbed_sampler *sampler, int overruns, void *context)
{
    int is_work = unperturbed_header->clock == CLOCK_IS_WORK;
    if (is_work && is_ticked_by_each() && unperturbed_header->threads > 1) {
        if (main_sampler.quanta.starved != BY_MAIN)
            tick_of_several_threads(sampler, context);
        if (main_sampler.quanta.starved != BY_MAIN || sampler != &main_sampler)
            return;
    }
    uint64_t passed = is_work ? quanta_since(&sampler->quanta, context) : 0;
    if (!is_work)
        write_record(sampler, overruns);
    else if (!waits_for_a_rank() && (sampler->quanta.count += passed) >= unperturbed_header->interval_ns) {
        sampler->quanta.count %= unperturbed_header->interval_ns;
        write_record(sampler, 0);
    }
    if (is_work) {
        if (sampler->quanta.log >= 0)
            ask_for_statistics();
        sampler->quanta.left_ns = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        set_timer(sampler);
    }
}

/* The process ends, and this thread with it: the main thread waits for its last record. */
static APART void last_tick(struct unperturbed_sampler *sampler)
{
    int saved = errno, before, forbidden;
    if (sampler->busy || !unperturbed_is_awaited(&sampler->member))
        return;
    sampler->busy = 1;
    unperturbed_apart++;
    forbidden = forbid_cancelling(sampler, &before);
    write_record(sampler, 0);
    if (forbidden)
        pthread_setcancelstate(before, NULL);
    errno = saved;
    unperturbed_apart--;
    sampler->busy = 0;
    unperturbed_is_recorded(&sampler->member);
}

/* Returns the stack pointer of interrupted code less the red zone, as sites pass theirs. */
static const char *stack_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (const char *)context->uc_mcontext.gregs[REG_RSP] - RED_ZONE;
#else
    (void)context;
    return NULL; /* no regions */
#endif
}

/* `plain`: as for `write_one`, and intervals end by time. */
static inline __attribute__((always_inline)) void tick(struct unperturbed_sampler *sampler, const siginfo_t *info,
                                                       void *context, int plain)
{
    sampler->busy = 1;
    unperturbed_apart++;
    int saved = errno, before, forbidden = forbid_cancelling(sampler, &before);
    if (plain)
        write_one(sampler, info->si_overrun, 1);
    else if (unperturbed_header->clock == CLOCK_IS_EVENT)
        tick_of_an_event(sampler);
    else if (is_simulated() || unperturbed_header->clock == CLOCK_IS_WORK)
        tick_of_a_simulator(sampler, info->si_overrun, context);
    else
        write_record(sampler, info->si_overrun);
    if (forbidden)
        pthread_setcancelstate(before, NULL);
    errno = saved;
    unperturbed_apart--;
    sampler->busy = 0;
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    struct unperturbed_sampler *sampler = own;
    if (!sampler || !(info->si_code == SI_TIMER ? info->si_value.sival_ptr == sampler : is_overflow(sampler, info))) {
        if (sampler && info->si_code == SI_TKILL)
            last_tick(sampler);
        return; /* otherwise not the sampler's signal */
    }
    if (sampler->busy) {
        __atomic_fetch_add(&unperturbed_header->nested, 1, __ATOMIC_RELAXED);
        if (unperturbed_header->clock == CLOCK_IS_WORK)
            is_ticked_by_each() && unperturbed_header->threads > 1 ? set_turn(sampler) : (void)set_timer(sampler);
        return;
    }
    if (unperturbed_header->regions)
        check_left(&sampler->regions, stack_of(context));
    if (is_crossing && !is_simulated()) {
        sampler->regions.late += 1 + info->si_overrun * (info->si_code == SI_TIMER);
        return;
    }
    tick(sampler, info, context, 0);
}

/* The same where intervals end by time, counts are not simulated and there are no regions, in fewer instructions. */
static void on_plain_tick(int signal, siginfo_t *info, void *context)
{
    struct unperturbed_sampler *sampler = own;
    if (!sampler || info->si_code != SI_TIMER || info->si_value.sival_ptr != sampler || sampler->busy) {
        on_tick(signal, info, context);
        return;
    }
    tick(sampler, info, context, 1);
}

void unperturbed_jump(const char *stack, const char *place)
{
    if (own && unperturbed_header->regions)
        check_jump(&own->regions, unperturbed_header->software, stack - RED_ZONE, place);
}

/* Ends an interval at one of the program's events: called by a site, on the program's stack, with all registers kept.
 * All signals are blocked, even those that the C library reserves, so that no handler of the program runs within: one
 * that jumped out would leave the sampler busy for ever. Functions that the program replaces (malloc, read) may have
 * sites that are called from here: they count, and the countdown goes on afterwards. */
void unperturbed_end_interval(uint64_t unused, const char *stack)
{
    (void)unused;
    static const uint64_t all = UINT64_MAX;
    uint64_t blocked;
    struct unperturbed_sampler *sampler = own;
    if (sampler && sampler->busy) {
        __atomic_fetch_add(&unperturbed_header->nested, 1, __ATOMIC_RELAXED);
        return;
    }
    int saved = errno, before;
    unperturbed_apart++;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &blocked, sizeof all);
    /* Before the signals were blocked, a handler may have ended this interval. A child that the run does not count does
     * not record. */
    if (sampler && unperturbed_remaining <= 0 && unperturbed_is_counted()) {
        sampler->busy = 1;
        int forbidden = forbid_cancelling(sampler, &before);
        if (unperturbed_header->regions)
            check_left(&sampler->regions, stack);
        write_record(sampler, 0);
        if (forbidden)
            pthread_setcancelstate(before, NULL);
        sampler->busy = 0;
    }
    if (unperturbed_remaining <= 0)
        unperturbed_remaining += sampler ? (long long)unperturbed_header->interval_ns : UNPERTURBED_NEVER;
    if (sampler && is_simulated())
        forget_branches();
    unperturbed_apart--; /* still blocked: a handler of the program is not apart */
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof all);
    errno = saved;
}

/* Reads the thread's counters where it enters or leaves a region, and writes a record if a tick came meanwhile. */
static APART void cross_counted(struct unperturbed_sampler *sampler, uint32_t number, int leaves)
{
    int64_t room[sizeof(struct unperturbed_record) / sizeof(int64_t) + UNPERTURBED_EVENTS];
    struct unperturbed_record *record = (struct unperturbed_record *)room;
    int64_t now = 0;
    if (unperturbed_read(&sampler->counters, record) != 0)
        __atomic_fetch_add(&unperturbed_header->unread, 1, __ATOMIC_RELAXED);
    else
        now = record->value[unperturbed_header->region[number] - 1];
    if (leaves)
        count_region(&sampler->regions, number, now);
    else
        sampler->regions.begin[number] = now;
}

static APART void cross_region(uint64_t code, const char *stack)
{
    struct unperturbed_sampler *sampler = own;
    uint32_t number = (uint32_t)(code >> 1);
    int leaves = code & 1;
    if (!sampler || sampler->busy || !unperturbed_header->region[number])
        return;
    int counts = is_outermost(&sampler->regions, number, leaves, stack);
    sampler->quanta.handled += counts ? CROSSING_BLOCKS : INNER_BLOCKS;
    if (!counts)
        return;
    if (is_simulated()) {
        cross_simulated(number);
        if (++crossings == MOST_CROSSINGS)
            unperturbed_mark(MARK_CROSSINGS);
        return;
    }
    int saved = errno, before;
    unperturbed_apart++;
    int forbidden = forbid_cancelling(sampler, &before);
    cross_counted(sampler, number, leaves);
    while (sampler->regions.late) {
        int late = sampler->regions.late;
        sampler->regions.late = 0;
        if (unperturbed_header->clock == CLOCK_IS_EVENT)
            tick_of_an_event(sampler);
        else
            write_record(sampler, late - 1);
    }
    if (forbidden)
        pthread_setcancelstate(before, NULL);
    unperturbed_apart--;
    errno = saved;
}

/* Called where the program enters or leaves a region, with all registers kept. The simulator does not collect within. */
void unperturbed_cross_region(uint64_t code, const char *stack)
{
    is_crossing = 1;
    cross_region(code, stack);
    is_crossing = 0;
}

/* Stops counting around the handler. The few instructions that the simulator still counts have no branch. Wherever a
 * signal arrives, callgrind begins to collect with its handler, and afterwards continues as before. */
static void on_simulated_tick(int signal, siginfo_t *info, void *context)
{
    CALLGRIND_TOGGLE_COLLECT;
    on_tick(signal, info, context);
    forget_branches();
    CALLGRIND_TOGGLE_COLLECT;
}

static void (*handler(void))(int, siginfo_t *, void *)
{
    uint64_t clock = unperturbed_header->clock;
    if (is_simulated())
        return on_simulated_tick;
    return unperturbed_header->regions || clock == CLOCK_IS_EVENT || clock == CLOCK_IS_WORK ? on_tick : on_plain_tick;
}

static int take_signal(void)
{
    struct sigaction action, before;
    if (sigaction((int)unperturbed_header->signal, NULL, &before) != 0)
        return unperturbed_fail("cannot receive the sampler's signal");
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN && before.sa_sigaction != handler()) {
        errno = EBUSY;
        return unperturbed_fail("the program already handles the sampler's signal");
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler();
    action.sa_flags = SA_SIGINFO | SA_RESTART | (unperturbed_header->options & OPTION_ALTERNATE_STACK ? SA_ONSTACK : 0);
    /* Block all signals, even those that the C library reserves: a handler of the program that jumps out of a tick
     * would leave the sampler busy for ever. */
    memset(&action.sa_mask, 0xff, sizeof action.sa_mask);
    return sigaction((int)unperturbed_header->signal, &action, NULL) == 0
               ? 0
               : unperturbed_fail("cannot receive the sampler's signal");
}

static int start_timer(struct unperturbed_sampler *sampler)
{
    if (is_by_program() || is_ticked_by_main(sampler))
        return 0;
    if (sampler->counters.overflow)
        return unperturbed_overflow_start(&sampler->counters, sampler->thread_id, (int)unperturbed_header->signal) == 0
                   ? 0
                   : unperturbed_fail("cannot receive the overflow's signal");
    struct sigevent event;
    memset(&event, 0, sizeof event);
    /* A process-directed timer would interrupt an arbitrary thread, and read that thread's counters. */
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = (int)unperturbed_header->signal;
    event.sigev_value.sival_ptr = sampler;
    event.sigev_notify_thread_id = sampler->thread_id;
    int is_work = unperturbed_header->clock == CLOCK_IS_WORK;
    if (timer_create(interval_clock(), &event, &sampler->timer) != 0 ||
        (is_work && timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &sampler->at_rest) != 0))
        return unperturbed_fail("timer_create");
    if (is_work && sampler != &main_sampler)
        sampler->quanta.tick_ns = SHORTEST_TICK_NS;
    return set_timer(sampler) == 0 ? 0 : unperturbed_fail("timer_settime");
}

/* Moves descriptors above those that the program will use: its own descriptors keep their numbers. If the program
 * closes all descriptors, files that it opens later are not read here. */
static void move_up(int *fd)
{
    struct rlimit limit;
    if (*fd < 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    int above =
        fcntl(*fd, F_DUPFD_CLOEXEC, limit.rlim_cur / 2 < HIGH_DESCRIPTOR ? (int)(limit.rlim_cur / 2) : HIGH_DESCRIPTOR);
    if (above < 0)
        return;
    close(*fd);
    *fd = above;
}

static int open_os_files(void)
{
    if (unperturbed_os_open(&os_files, unperturbed_header->os, 0) != 0)
        return -1;
    move_up(&os_files.scheduler);
    move_up(&os_files.io);
    return 0;
}

static int open_source(struct unperturbed_sampler *sampler)
{
    if (is_simulated() && !RUNNING_ON_VALGRIND) {
        unperturbed_header->error = ENOSYS;
        snprintf(unperturbed_header->message, sizeof unperturbed_header->message,
                 "the program does not run under callgrind, or was built without valgrind's headers");
        return -1;
    }
    if (unperturbed_open_by(reading, &sampler->counters, unperturbed_header, 0) != 0)
        return -1;
    for (uint32_t i = 0; i < sampler->counters.events; i++)
        move_up(&sampler->counters.fd[i]);
    if (unperturbed_header->clock == CLOCK_IS_WORK && sampler == &main_sampler) {
        sampler->quanta.log = open_log();
        move_up(&sampler->quanta.log);
        begin_early(&sampler->quanta, unperturbed_header->quantum_blocks, unperturbed_header->early_blocks);
        begin_quanta(&sampler->quanta);
    }
    return 0;
}

static int open_probes(void)
{
    struct unperturbed_header *header = unperturbed_header;
    if (header->probes && RUNNING_ON_VALGRIND) {
        /* Valgrind would treat the kernel's breakpoint as an instruction of the program, and end the program. */
        header->error = ENOTSUP;
        snprintf(
            header->message, sizeof header->message,
            "the kernel's probe of %s does not work under valgrind; use hardware or kernel counters, or leave it out",
            header->probe[0].name);
        return -1;
    }
    if (unperturbed_probes_open(&probes, header, 0) != 0)
        return -1;
    for (uint32_t i = 0; i < probes.count; i++)
        move_up(&probes.fd[i]);
    return 0;
}

/* The record that begins a thread's first interval, or ends its last one. */
static void write_bound(struct unperturbed_sampler *sampler)
{
    if (sampler != &main_sampler && is_ticked_by_each())
        return; /* it has none of its own */
    sampler->busy = 1;
    unperturbed_pause();
    write_record(sampler, 0);
    unperturbed_resume();
    sampler->busy = 0;
}

struct unperturbed_sampler *unperturbed_sampler_start(const struct unperturbed_birth *birth)
{
    struct unperturbed_header *header = unperturbed_header;
    pid_t thread = this_thread();
    unperturbed_apart++;
    struct unperturbed_sampler *sampler = thread == (pid_t)header->owner ? &main_sampler : calloc(1, sizeof *sampler);
    sigset_t ours;
    int cancelling, saved = errno;
    if (!sampler) {
        unperturbed_apart--;
        return NULL;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    sigemptyset(&ours);
    sigaddset(&ours, (int)header->signal);
    /* Many programs start threads with all signals blocked, to handle the program's signals in one thread. */
    if (!is_by_program() && !is_ticked_by_main(sampler))
        pthread_sigmask(SIG_UNBLOCK, &ours, NULL);
    sampler->thread_id = thread;
    sampler->member.number = (uint32_t)__atomic_fetch_add(&header->threads, 1, __ATOMIC_RELAXED);
    own = sampler;
    if (unperturbed_counts_each()) /* before its events count */
        unperturbed_write_birth(sampler->member.number, thread, birth);
    if (open_source(sampler) == 0 && start_timer(sampler) == 0) {
        write_bound(sampler);
        if (unperturbed_counts_each() && sampler != &main_sampler)
            unperturbed_join(&sampler->member, thread);
        if (is_by_program())
            unperturbed_remaining = (long long)header->interval_ns;
    } else {
        __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
        own = NULL;
        if (sampler != &main_sampler)
            free(sampler);
        sampler = NULL;
    }
    errno = saved;
    pthread_setcancelstate(cancelling, NULL);
    unperturbed_apart--;
    return sampler;
}

void unperturbed_sampler_stop(struct unperturbed_sampler *sampler)
{
    sigset_t blocked;
    int cancelling;
    unperturbed_apart++;
    if (!unperturbed_is_counted() || sampler != own) {
        unperturbed_apart--;
        return; /* the thread forked, and this is the child */
    }
    if (sampler != &main_sampler)
        unperturbed_pause();
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    unperturbed_remaining = UNPERTURBED_NEVER;
    if (unperturbed_counts_each() && sampler != &main_sampler)
        unperturbed_leave(&sampler->member);
    int is_needed = sampler == &main_sampler || !is_simulated(); /* otherwise other threads' ticks end its intervals */
    if (is_needed && !is_by_program() && pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 &&
        sigismember(&blocked, (int)unperturbed_header->signal) == 1)
        unperturbed_mark(MARK_SIGNAL_BLOCKED);
    if (sampler->counters.overflow)
        unperturbed_overflow_stop(&sampler->counters);
    else if (!is_by_program() && !is_ticked_by_main(sampler)) {
        timer_delete(sampler->timer);
        if (unperturbed_header->clock == CLOCK_IS_WORK)
            timer_delete(sampler->at_rest);
    }
    sampler->ended = 1;
    write_bound(sampler);
    if (unperturbed_counts_each())
        unperturbed_write_end(sampler->member.number);
    own = NULL; /* a pending tick then does nothing */
    unperturbed_close(&sampler->counters);
    if (sampler != &main_sampler) {
        free(sampler);
        unperturbed_resume();
    }
    pthread_setcancelstate(cancelling, NULL);
    unperturbed_apart--;
}

static int is_sampled(void) { return unperturbed_is_counted() && !(unperturbed_header->options & OPTION_OUTSIDE); }

/* Only perf_event can interrupt at an overflow, so it also reads other sources' events then. Runs once, before any
 * thread has a sampler. */
static int choose_reading(void)
{
    reading = unperturbed_header->source;
    if (unperturbed_header->clock != CLOCK_IS_EVENT)
        return 0;
    if (unperturbed_encode(unperturbed_header) < 0)
        return -1;
    reading = SOURCE_PERF;
    return 0;
}

static void begin(void)
{
    begun = 1;
    unperturbed_header->tables = unperturbed_tables();
    int keeps = is_by_program() || unperturbed_header->regions;
    uint64_t state = open_os_files() == 0 && (!keeps || unperturbed_prepare_intervals() == 0) &&
                             (is_by_program() || take_signal() == 0) && open_probes() == 0 && choose_reading() == 0 &&
                             unperturbed_sampler_start(NULL)
                         ? STATE_ATTACHED
                         : STATE_FAILED;
    __atomic_store_n(&unperturbed_header->state, state, __ATOMIC_RELEASE);
}

static int samples_threads(void)
{
    if (!begun && !unperturbed_header)
        unperturbed_claim(environ);
    if (!is_sampled())
        return 0;
    unperturbed_mark(MARK_THREADS);
    int is_needed = !is_simulated() || unperturbed_counts_each() || is_ticked_by_each();
    int threads = (unperturbed_header->options & OPTION_THREADS) && is_needed;
    if (!begun && unperturbed_header->state == STATE_WAITING && (threads || unperturbed_header->probes))
        begin(); /* libraries start threads in constructors; probes only count threads created later */
    return threads && unperturbed_header->state == STATE_ATTACHED;
}

int unperturbed_samples_threads(void)
{
    unperturbed_apart++;
    int samples = samples_threads();
    unperturbed_apart--;
    return samples;
}

/* In a forked child: starts again, with a record file and counters of its own. The parent's go on. */
static void begin_in_child(void)
{
    int in_another_thread = own && own != &main_sampler;
    if (own && own->counters.source->forget)
        own->counters.source->forget(&own->counters);
    if (own != &main_sampler && main_sampler.counters.source && main_sampler.counters.source->forget)
        main_sampler.counters.source->forget(&main_sampler.counters);
    struct regions regions;
    keep_regions(&regions, own ? &own->regions : &main_sampler.regions);
    own = NULL;
    unperturbed_remaining = UNPERTURBED_NEVER;
    memset(&main_sampler, 0, sizeof main_sampler);
    main_sampler.regions = regions;
    unperturbed_forget_members();
    unperturbed_os_close(&os_files);
    unperturbed_probes_close(&probes);
    if (unperturbed_claim_in_child() != 0)
        return;
    if (in_another_thread && unperturbed_counts_each() && is_simulated()) { /* its number there is not the first */
        snprintf(
            unperturbed_header->message, sizeof unperturbed_header->message,
            "a thread other than the main one created it, which the simulator cannot separate: use `threads: all`");
        __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
        return;
    }
    begin();
}

static void after_fork(void)
{
    int saved = errno;
    unperturbed_apart++;
    if (unperturbed_header && (unperturbed_header->options & OPTION_OUTSIDE))
        unperturbed_share_after_fork();
    else if (unperturbed_header && (unperturbed_header->options & OPTION_CHILDREN))
        begin_in_child();
    unperturbed_apart--;
    errno = saved;
}

static void start_once(char **environment)
{
    int first = !begun;
    begun = 1;
    if (!first || unperturbed_claim(environment) != 0)
        return;
    /* A constructor may have forked. */
    if (!unperturbed_is_counted() &&
        (!(unperturbed_header->options & OPTION_CHILDREN) || unperturbed_claim_in_child() != 0))
        return;
    struct unperturbed_header *header = unperturbed_header;
    if (header->state == STATE_FAILED)
        return;
    if (header->options & (OPTION_OUTSIDE | OPTION_CHILDREN))
        pthread_atfork(NULL, NULL, after_fork);
    if (header->options & OPTION_OUTSIDE)
        __atomic_store_n(&header->state, STATE_ATTACHED, __ATOMIC_RELEASE);
    else
        begin();
}

/* Runs after all other constructors of the executable, to exclude their work from the program's first interval. */
__attribute__((constructor)) static void start(int argc, char **argv, char **environment)
{
    (void)argc;
    (void)argv;
    unperturbed_apart++;
    start_once(environment);
    unperturbed_apart--;
}

/* Whether the main thread called pthread_exit(3): the program continued without the sampler of the trace's
 * intervals. */
static int main_thread_ended(void)
{
    char path[48], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    close(fd);
    text[length < 0 ? 0 : length] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && strncmp(name_end, ") Z", 3) == 0;
}

/* Returns why the records do not cover the whole program, or NULL. */
static const char *missing_work(void)
{
    struct unperturbed_header *header = unperturbed_header;
    int made_threads = &__libc_single_threaded && is_threaded(); /* even threads created without pthread_create */
    if (made_threads)
        unperturbed_mark(MARK_THREADS);
    if (made_threads && (header->options & OPTION_THREADS) && !is_ticked_by_each() && header->threads < 2)
        return "the program starts threads in a way that allows no sampler in them; use sampler: outside";
    if (own != &main_sampler && main_thread_ended())
        return "the main thread ended before the program, and its intervals with it; use sampler: outside";
    return NULL;
}

/* Notes at the end of the process what a reader of its records must know. */
static void note_conditions(void)
{
    struct unperturbed_header *header = unperturbed_header;
    struct sigaction now;
    header->cpu_ns = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    if (main_sampler.quanta.calls > main_sampler.quanta.all / UNEVEN_SHARE)
        unperturbed_mark(MARK_UNEVEN);
    if (main_sampler.counters.user_reads)
        unperturbed_mark(MARK_USER_READ);
    if (!is_by_program() && sigaction((int)header->signal, NULL, &now) == 0 && now.sa_sigaction != handler())
        unperturbed_mark(MARK_SIGNAL_TAKEN);
}

static void finish_once(void)
{
    struct unperturbed_header *header = unperturbed_header;
    if (!header)
        return;
    if (unperturbed_counts_elsewhere())
        unperturbed_mark(MARK_SHARED_FORK);
    if (!is_sampled() || header->state != STATE_ATTACHED)
        return;
    note_conditions();
    const char *missing = missing_work();
    if (missing)
        snprintf(header->message, sizeof header->message, "%s", missing);
    /* Without the last record if another thread calls exit(3), which cannot read the main thread's counters. */
    int is_main = own == &main_sampler;
    if (is_main && unperturbed_counts_each() && !is_simulated() && !is_by_program())
        unperturbed_await_members((int)header->signal);
    if (is_main) {
        check_left(&main_sampler.regions, __builtin_frame_address(0));
        unperturbed_sampler_stop(&main_sampler);
    }
    if (missing || is_main)
        __atomic_store_n(&header->state, missing ? STATE_FAILED : STATE_FINISHED, __ATOMIC_RELEASE);
}

/* Writes the last record, which ends the interval in which the program ends. A forked child shares the mapping and must
 * not write. */
__attribute__((destructor)) static void finish(void)
{
    unperturbed_apart++;
    finish_once();
    unperturbed_apart--;
}

/* Writes the last record of a process that calls _exit(2), as forked children do: it runs no exit handlers. Maybe in a
 * signal handler of the program: uses nothing that might allocate or lock. */
static void finish_at_once(void)
{
    struct unperturbed_sampler *sampler = own;
    if (sampler != &main_sampler || sampler->busy || !is_sampled() || unperturbed_header->state != STATE_ATTACHED ||
        missing_work())
        return;
    sigset_t all, blocked, waiting;
    unperturbed_apart++;
    /* A handler of the program, which may end it, blocks the signal for a moment only: no tick waits then. Under
     * valgrind, a tick may wait although the program does not block it. */
    if (!is_by_program() && pthread_sigmask(SIG_SETMASK, NULL, &blocked) == 0 && sigpending(&waiting) == 0 &&
        sigismember(&blocked, (int)unperturbed_header->signal) == 1 &&
        sigismember(&waiting, (int)unperturbed_header->signal) == 1)
        unperturbed_mark(MARK_SIGNAL_BLOCKED);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    note_conditions();
    write_bound(sampler);
    unperturbed_apart--;
    __atomic_store_n(&unperturbed_header->state, STATE_FINISHED, __ATOMIC_RELEASE);
}

static __attribute__((noreturn)) void end_at_once(int code)
{
    finish_at_once();
    for (;;)
        syscall(SYS_exit_group, code);
}

__attribute__((weak, visibility("default"), noreturn)) void _exit(int code) { end_at_once(code); }

__attribute__((weak, visibility("default"), noreturn)) void _Exit(int code) { end_at_once(code); }
