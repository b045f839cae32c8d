/* The inside sampler: a timer signal in the measured program's main thread writes one record a tick (003, section 3.1).
 *
 * It sleeps unless UNPERTURBED_RECORD names a record file that nobody has claimed. What a tick costs in the program: the signal's delivery and return
 * (about 4 us), the source's one read, about 30 ns for 64 software counters; no allocation, no lock, errno untouched.
 */
#define _GNU_SOURCE
#include "sources.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
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

static struct unperturbed_table *tables; /* pushed before main and by dlopen; read by the handler */
static struct unperturbed_header *header;
static char *records;
static timer_t timer;
static volatile sig_atomic_t busy;

void unperturbed_register(struct unperturbed_table *table)
{
    struct unperturbed_table *head = __atomic_load_n(&tables, __ATOMIC_RELAXED);
    do
        table->next = head;
    while (!__atomic_compare_exchange_n(&tables, &head, table, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void read_os(int64_t *value)
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

static void read_software(int64_t *value)
{
    for (const struct unperturbed_table *table = __atomic_load_n(&tables, __ATOMIC_ACQUIRE); table; table = table->next)
        for (uint32_t site = 0; site < table->sites; site++)
            if (table->metric[site] < header->software)
                value[table->metric[site]] += (int64_t)__atomic_load_n(&table->counts[site], __ATOMIC_RELAXED);
}

/* Has callgrind end an interval that carries the record's number: its dumps hold the events since the dump before. */
static void dump_simulated(uint64_t sequence)
{
    char label[24] = "interval ";
    char digits[12];
    int count = 0, end = 9;
    do
        digits[count++] = (char)('0' + sequence % 10);
    while ((sequence /= 10) && count < (int)sizeof digits);
    while (count)
        label[end++] = digits[--count];
    label[end] = 0;
    CALLGRIND_DUMP_STATS_AT(label);
}

static void write_record(int overruns)
{
    uint64_t sequence = header->committed;
    if (sequence >= header->capacity) {
        header->lost++;
        return;
    }
    struct unperturbed_record *record = (struct unperturbed_record *)(records + sequence * header->record_bytes);
    int unread = 0;
    if (header->source == SOURCE_PERF)
        unread = unperturbed_perf_read(record, header->events);
    else if (header->source == SOURCE_PAPI)
        unread = unperturbed_papi_read(record, header->events);
    if (unread)
        header->unread++;
    record->sequence = sequence;
    record->monotonic_ns = nanoseconds(CLOCK_MONOTONIC);
    if (header->clock == CLOCK_IS_PROCESS_CPU)
        record->cpu_ns = nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    record->overruns = (uint64_t)overruns;
    if (header->os)
        read_os(record->value + header->events);
    read_software(record->value + header->events + header->os);
    if (header->source == SOURCE_CALLGRIND)
        dump_simulated(sequence);
    __atomic_store_n(&header->committed, sequence + 1, __ATOMIC_RELEASE);
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (busy) {
        header->nested++;
        return;
    }
    busy = 1;
    int saved = errno;
    if (header->source == SOURCE_CALLGRIND)
        CALLGRIND_TOGGLE_COLLECT;
    write_record(info->si_overrun);
    if (header->source == SOURCE_CALLGRIND)
        CALLGRIND_TOGGLE_COLLECT;
    errno = saved;
    busy = 0;
}

static int fail(const char *what)
{
    header->error = errno;
    snprintf(header->message, sizeof header->message, "%s: %s", what, strerror(errno));
    return -1;
}

static int start_timer(void)
{
    struct sigaction action, before;
    if (sigaction((int)header->signal, NULL, &before) != 0)
        return fail("the sampler's signal");
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        errno = EBUSY;
        return fail("the program already handles the sampler's signal");
    }
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_tick;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    if (sigaction((int)header->signal, &action, NULL) != 0)
        return fail("the sampler's signal");

    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID; /* a process-directed timer would read the counters of whichever thread it hits */
    event.sigev_signo = (int)header->signal;
    event.sigev_notify_thread_id = (int)syscall(SYS_gettid);
    clockid_t clock = header->clock == CLOCK_IS_PROCESS_CPU ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
    if (timer_create(clock, &event, &timer) != 0)
        return fail("timer_create");
    struct itimerspec period;
    period.it_interval.tv_sec = (time_t)(header->interval_ns / 1000000000);
    period.it_interval.tv_nsec = (long)(header->interval_ns % 1000000000);
    period.it_value = period.it_interval;
    return timer_settime(timer, 0, &period, NULL) == 0 ? 0 : fail("timer_settime");
}

static int open_source(void)
{
    if (header->source == SOURCE_PERF)
        return unperturbed_perf_open(header);
    if (header->source == SOURCE_PAPI)
        return unperturbed_papi_open(header);
    if (header->source == SOURCE_CALLGRIND && !RUNNING_ON_VALGRIND) {
        header->error = ENOSYS;
        snprintf(header->message, sizeof header->message, "the program does not run under callgrind, or valgrind's headers were missing when it was built");
        return -1;
    }
    return 0;
}

/* Maps the record file and claims it. A second program of the same run (`sh -c 'a; b'`) finds it claimed and leaves it alone. */
static int claim(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat status;
    if (fstat(fd, &status) != 0 || status.st_size < (off_t)sizeof *header) {
        close(fd);
        return -1;
    }
    void *map = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return -1;
    header = map;
    uint64_t nobody = 0;
    if (memcmp(header->magic, UNPERTURBED_MAGIC, sizeof header->magic) != 0 ||
        (header->program[0] && strncmp(header->program, program_invocation_short_name, sizeof header->program - 1) != 0) ||
        !__atomic_compare_exchange_n(&header->owner, &nobody, (uint64_t)getpid(), 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        header = NULL;
        munmap(map, (size_t)status.st_size);
        return -1;
    }
    records = (char *)map + header->header_bytes;
    return 0;
}

/* After every other constructor of the executable, so that their work is not counted as the program's first interval. */
__attribute__((constructor)) static void start(void)
{
    const char *path = getenv(UNPERTURBED_ENVIRONMENT);
    if (!path || !*path || claim(path) != 0)
        return;
    for (const struct unperturbed_table *table = tables; table; table = table->next)
        header->libraries++;
    if (open_source() != 0 || start_timer() != 0) {
        __atomic_store_n(&header->state, STATE_FAILED, __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n(&header->state, STATE_ATTACHED, __ATOMIC_RELEASE);
    busy = 1;
    if (header->source == SOURCE_CALLGRIND)
        CALLGRIND_TOGGLE_COLLECT;
    write_record(0);
    if (header->source == SOURCE_CALLGRIND)
        CALLGRIND_TOGGLE_COLLECT;
    busy = 0;
}

/* The last record: the interval that the program's end cut short. A forked child shares the mapping and must stay silent. */
__attribute__((destructor)) static void finish(void)
{
    if (!header || header->state != STATE_ATTACHED || header->owner != (uint64_t)getpid())
        return;
    timer_delete(timer);
    busy = 1;
    if (header->source == SOURCE_CALLGRIND)
        CALLGRIND_TOGGLE_COLLECT;
    write_record(0);
    __atomic_store_n(&header->state, STATE_FINISHED, __ATOMIC_RELEASE);
}
