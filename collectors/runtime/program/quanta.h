/* Quanta of equally many basic blocks, by which valgrind brings ticks to the inside sampler. Included only by sampler.c. */
#ifndef UNPERTURBED_QUANTA_H
#define UNPERTURBED_QUANTA_H

#include "simulator.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

/* The first tick's time. Every tick rearms the timer, but on a busy host a second tick may be pending when the handler
 * returns: valgrind then checks for signals, and delivers this tick before the program continues. A tick that detects this
 * doubles the time. */
#define WORK_TICK_NS 200000
#define SHORTEST_TICK_NS 50000
#define LONGEST_TICK_NS 6400000
#define RECENT 32          /* quanta whose speeds tell when the next tick must come */
#define FIRST 8            /* quanta at a run's beginning that translate much, and tell no speed */
#define CLOSE_BLOCKS 5000  /* blocks that take longer than `SHORTEST_TICK_NS` plus the handling of a tick */
#define SPARED_BLOCKS 2000 /* blocks of a quantum reserved for the ticks that usually occur in it */
#define EDGE_BLOCKS 40     /* between the statistics' readings of two ticks in immediate succession */
#define WAITING_BLOCKS 80  /* more than `EDGE_BLOCKS`: a program that executes fewer between two ticks waits */
#define WAITING_TICKS 8    /* fewer in immediate succession may have been pending, as each comes after twice the time */
#define REMEMBERED_BRANCHES 14
#define WATCH_TICK_NS 51200000 /* of a main thread that waits while other threads' ticks count */
#define WATCHED_QUANTA 3       /* that show whether other threads' ticks count */
#define UNEVEN_SHARE 20        /* if one tick in this many is lost to system calls, intervals of work are uneven */
#define REGISTERS 34           /* at most */

/* Quanta of work, of equally many basic blocks. */
struct quanta {
    uint64_t blocks;               /* basic blocks of a quantum */
    uint64_t tick_ns;              /* time until the next tick */
    int log;                       /* the simulator's log, for its statistics; -1: none */
    uint64_t begun;                /* the number of the current quantum, from the statistics */
    uint64_t first;                /* the current quantum's first block */
    uint64_t entered, left;        /* block at entry to the last tick's handler, and at its return */
    uint64_t edge;                 /* blocks of a tick before `entered` and after `left` */
    int early;                     /* first ticks, in immediate succession, which measure `edge` */
    uint64_t handled;              /* blocks taken by ticks, minus those reserved for them */
    uint64_t counted;              /* quanta that have ended or were about to end */
    uint64_t count;                /* quanta since the last record */
    uint64_t all;                  /* quanta since the beginning */
    uint64_t calls;                /* ticks caused by a system call instead */
    uint64_t stood;                /* ticks in immediate succession during one system call */
    uint64_t waited;               /* blocks of the current quantum that such ticks executed */
    uint64_t paced;                /* the first tick's block in the current quantum */
    uint64_t spent_ns, left_ns;    /* CPU time since, without ticks; at the last tick's return */
    uint64_t recent_ps[RECENT];    /* time of a block, in ps, in recent quanta */
    uint64_t block_ps;             /* the shortest of them */
    uint64_t registers[REGISTERS]; /* the program's registers at the last tick */
    uint64_t ticked;               /* with several threads: ticks at the end of a quantum */
    uint64_t watched;              /* block at the main thread's last tick while it waited; 0 if it does not wait */
    int seen;                      /* it has been seen whether others have too few ticks */
    uint64_t majors;               /* `ended` when it last was seen whether others have too few ticks */
    enum { UNSTARVED, BY_BLOCKS, BY_MAIN } starved; /* the main thread waits, and others have too few ticks */
};

#if defined(__x86_64__)
enum { TELLS_CALLS = 1 };

/* General registers, the next instruction and the flags. */
static const void *registers(const ucontext_t *context) { return context->uc_mcontext.gregs; }
static const size_t registers_size = (REG_EFL + 1) * sizeof(greg_t);

/* Returns whether a blocking system call caused the tick, instead of the end of a quantum: the next instruction is
 * `syscall`, which is restarted after the tick, or the previous instruction is. */
static int in_system_call(const ucontext_t *context)
{
    const unsigned char *next = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    return (next[-2] == 0x0f && next[-1] == 0x05) || (next[0] == 0x0f && next[1] == 0x05);
}
#elif defined(__aarch64__)
enum { TELLS_CALLS = 0 };

/* General registers, stack pointer, next instruction and state word, which are adjacent. */
static const void *registers(const ucontext_t *context) { return context->uc_mcontext.regs; }
static const size_t registers_size = REGISTERS * sizeof(uint64_t);

static int in_system_call(const ucontext_t *context)
{
    (void)context;
    return 0;
}
#else
enum { TELLS_CALLS = 0 };

static const void *registers(const ucontext_t *context) { return context; }
static const size_t registers_size = 0;

static int in_system_call(const ucontext_t *context)
{
    (void)context;
    return 0;
}
#endif

/* Returns whether the program has executed anything since the last tick. Time is no criterion: on a busy host or under
 * a hypervisor, it passes even if the program does not run. */
static int went_on(struct quanta *quanta, const ucontext_t *context)
{
    if (registers_size == 0)
        return 1;
    int stands = memcmp(quanta->registers, registers(context), registers_size) == 0;
    memcpy(quanta->registers, registers(context), registers_size);
    return !stands;
}

/* Opens the simulator's log; the harness gives its name without the process id. */
static APART int open_log(void)
{
    char path[4096];
    const char *name = getenv(UNPERTURBED_LOG_ENVIRONMENT);
    if (!name || (size_t)snprintf(path, sizeof path, "%s%d", name, (int)getpid()) >= sizeof path)
        return -1;
    return open(path, O_RDWR | O_CLOEXEC);
}

/* Returns the number that ends at a position in a text, in valgrind's format: "1,234". */
static APART uint64_t number_ending(const char *text, const char *at)
{
    uint64_t number = 0, power = 1;
    for (; at - text >= 4 && at[-4] == ','; at -= 4, power *= 1000)
        number += (uint64_t)(100 * at[-3] + 10 * at[-2] + at[-1] - 111 * '0') * power;
    for (; at > text && at[-1] >= '0' && at[-1] <= '9'; at--, power *= 10)
        number += (uint64_t)(at[-1] - '0') * power;
    return number;
}

/* Makes valgrind write its statistics to its log. */
static APART void ask_for_statistics(void) { VALGRIND_MONITOR_COMMAND("v.info stats"); }

/* Finds a text of at least 8 characters: where it was last time, or up to 4 characters later, as numbers before it become
 * longer; a search of all the text would take a hundredth of a quantum. NULL: it is not there. */
static APART const char *find_again(const char *text, size_t length, const char *sought, size_t *place)
{
    enum { ENOUGH = 8, LATER = 4 };
    for (size_t at = *place; at <= *place + LATER && at + ENOUGH <= length; at++)
        if (memcmp(text + at, sought, ENOUGH) == 0) {
            *place = at;
            return text + at;
        }
    const char *found = memmem(text, length, sought, strlen(sought));
    *place = found ? (size_t)(found - text) : 0;
    return found;
}

/* Reads from valgrind's statistics how many blocks have been executed, and how many quanta of all threads have ended:
 * "scheduler: 123,456,789 event checks." and "scheduler: 1,234/56,789 major/minor sched events." The log begins with
 * those requested when the last tick's handler returned. Empties the log. */
static APART int read_statistics(struct quanta *quanta, uint64_t *blocks, uint64_t *ended)
{
    static const char checks[] = " event checks", sorts[] = " major/minor";
    static char text[8192];
    static off_t written; /* valgrind continues writing at this offset, even if the file was emptied */
    static size_t first, second, third;
    struct stat now;
    ask_for_statistics();
    if (fstat(quanta->log, &now) != 0 || now.st_size <= written)
        return -1;
    ssize_t length = pread(quanta->log, text, sizeof text, written);
    written = now.st_size;
    if (length <= 0 || ftruncate(quanta->log, 0) != 0)
        return -1;
    const char *end = text + length, *checked = find_again(text, (size_t)length, checks, &first);
    if (!checked)
        return -1;
    const char *again = find_again(checked + 1, (size_t)(end - checked - 1), checks, &second);
    quanta->left = again ? number_ending(text, checked) : quanta->entered;
    checked = again ? again : checked;
    const char *sorted = find_again(checked, (size_t)(end - checked), sorts, &third);
    while (sorted && sorted > checked && *sorted != '/')
        sorted--;
    if (!sorted)
        return -1;
    *blocks = number_ending(text, checked);
    *ended = number_ending(text, sorted);
    return 0;
}

/* Returns whether the tick is at the end of a quantum of work: not during a blocking call, and not before the program
 * has continued after the last tick. */
static int ends_quantum(struct quanta *quanta, const void *context)
{
    int moved = went_on(quanta, context);
    if (in_system_call(context)) {
        quanta->calls++;
        return 0;
    }
    quanta->all += (uint64_t)moved;
    return moved;
}

static APART void execute_blocks(uint64_t count)
{
    for (; count > 0; count--)
        __asm__ volatile("");
}

/* Returns a time of a block, in ps, that the program's blocks hardly fall below: half that of a loop's fastest turns. */
static APART uint64_t shortest_block_ps(void)
{
    enum { BLOCKS = 250, TIMES = 8 };
    uint64_t shortest = UINT64_MAX;
    for (int i = 0; i < TIMES; i++) {
        uint64_t begun = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
        execute_blocks(BLOCKS);
        uint64_t took = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - begun;
        shortest = took < shortest ? took : shortest;
    }
    return shortest * 1000 / BLOCKS / 2;
}

/* Starts counting quanta from the simulator's current position. */
static APART void begin_quanta(struct quanta *quanta)
{
    uint64_t done = 0;
    quanta->tick_ns = WORK_TICK_NS;
    if (quanta->log >= 0 && read_statistics(quanta, &done, &quanta->begun) != 0)
        quanta->log = -1;
    quanta->first = done - done % quanta->blocks; /* the program's first thread executes complete quanta */
    quanta->counted = quanta->begun;
    quanta->edge = EDGE_BLOCKS;
    quanta->early = 2;
    for (uint64_t i = 1; i <= RECENT; i++)
        quanta->recent_ps[(quanta->begun + i) % RECENT] = i <= FIRST ? quanta->block_ps : UINT64_MAX;
    quanta->entered = quanta->left = quanta->paced = done;
    quanta->left_ns = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
}

/* The simulated branch predictor remembers the outcomes of the last 14 conditional branches. Makes the last ones of a
 * tick the same at every tick, so that the predictions of the program's next branches do not depend on the path through
 * the handler. */
static APART void forget_branches(void) { execute_blocks(REMEMBERED_BRANCHES + 2); }

/* Shortens the first interval, by quanta that count as passed and by blocks that belong to no interval. The interval
 * begins with a quantum in all configurations, although they load different code, and so do different work before. */
static APART void begin_early(struct quanta *quanta, uint64_t quantum, uint64_t blocks)
{
    uint64_t done = 0, ended, left = blocks % quantum;
    quanta->blocks = quantum;
    quanta->block_ps = shortest_block_ps();
    if (quanta->log >= 0 && read_statistics(quanta, &done, &ended) == 0)
        left += quantum - done % quantum;
    quanta->count = blocks / quantum;
    execute_blocks(left);
}

/* Leaves the program the same number of blocks in each quantum. The simulator also executes the handling of ticks, and
 * the number of ticks in a quantum depends on the host's load: without this, the ends of intervals would move by up to
 * 2 % of an interval between identical runs. Blocks beyond those reserved in a quantum are compensated in the next
 * quanta. */
static APART void spare_blocks(struct quanta *quanta, uint64_t blocks, int stands, int begins)
{
    uint64_t took = quanta->left - quanta->entered, since = blocks - quanta->left;
    if (stands && since < CLOSE_BLOCKS) /* otherwise another thread ran */
        quanta->edge = since;           /* the program executed nothing in between */
    quanta->handled += (took < CLOSE_BLOCKS ? took : 0) + (begins ? 0 : quanta->edge);
    quanta->entered = blocks;
    if (!begins)
        return;
    uint64_t handled = quanta->handled < SPARED_BLOCKS ? quanta->handled : SPARED_BLOCKS;
    quanta->handled -= handled;
    quanta->entered += SPARED_BLOCKS - handled;
    execute_blocks(SPARED_BLOCKS - handled);
}

/* Sets the time until the next tick. A system call may take any tick, and one must be pending when the quantum ends; but
 * each tick costs blocks, so a quantum must have few. After a tick that a call took, half of the time passes that is left
 * until the quantum's last blocks, at the highest of recent speeds; if the quantum already counts as ended, all of it. With
 * several threads, a thread that waits takes ticks, and the next one must wait for its turn. */
static APART void pace(struct quanta *quanta, uint64_t blocks, int begins, int calls)
{
    uint64_t end = quanta->first + quanta->blocks, left = end > blocks ? end - blocks : 0;
    quanta->spent_ns += unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - quanta->left_ns;
    if (begins) {
        uint64_t *recent = quanta->recent_ps;
        recent[quanta->begun % RECENT] = quanta->spent_ns * 1000 / (blocks - quanta->paced + 1);
        quanta->paced = blocks;
        quanta->spent_ns = 0;
        quanta->block_ps = recent[0];
        for (int i = 1; i < RECENT; i++)
            if (recent[i] < quanta->block_ps)
                quanta->block_ps = recent[i];
    }
    if (quanta->counted == quanta->begun)
        left = left > CLOSE_BLOCKS ? (left - CLOSE_BLOCKS) / 2 : 0;
    quanta->tick_ns = calls ? left * quanta->block_ps / 1000 : 0;
    if (quanta->tick_ns < SHORTEST_TICK_NS)
        quanta->tick_ns = SHORTEST_TICK_NS;
}

/* Reads the statistics, from one thread at a time: it takes calls, during which other threads run. */
static APART int read_in_turn(struct quanta *quanta, uint64_t *blocks, uint64_t *ended)
{
    static int reads;
    if (quanta->log < 0 || __atomic_exchange_n(&reads, 1, __ATOMIC_ACQUIRE))
        return -1;
    int failed = read_statistics(quanta, blocks, ended);
    __atomic_store_n(&reads, 0, __ATOMIC_RELEASE);
    return failed;
}

/* Returns how many quanta have ended, of all threads, and were not counted, by the statistics. */
static APART uint64_t quanta_missed(struct quanta *all)
{
    uint64_t blocks, ended, before = all->counted;
    return read_in_turn(all, &blocks, &ended) == 0 && ended > before ? ended - before : 0;
}

/* Counts quanta while the main thread waits: 0 if other threads have a tick at the end of most of their quanta. They have
 * not if they live for less than a quantum: then blocks are counted, at its ticks. If they wait often, or block the signal,
 * its ticks alone count from then on, as those of a program with one thread. */
static APART uint64_t quanta_unseen(struct quanta *all)
{
    uint64_t blocks, ended, passed = 0;
    if (read_in_turn(all, &blocks, &ended) != 0) {
        all->tick_ns = WATCH_TICK_NS;
        return 0;
    }
    uint64_t since = all->watched ? blocks - (all->left > all->watched ? all->left : all->watched) : 0;
    all->waited += since > WAITING_BLOCKS ? since : 0; /* else the handling of ticks alone */
    if (all->waited >= (all->starved ? 1 : WATCHED_QUANTA) * all->blocks) {
        passed = all->waited / all->blocks;
        all->waited %= all->blocks;
        int starves = 2 * all->ticked < passed, ends = 2 * (ended - all->majors) >= passed;
        passed = all->starved ? passed : starves ? passed - all->ticked : 0;
        all->starved = !starves ? UNSTARVED : ends ? BY_MAIN : BY_BLOCKS;
        all->ticked = 0;
        all->majors = ended;
        all->seen = 1;
    }
    all->majors = all->watched ? all->majors : ended;
    all->counted = all->counted > ended ? all->counted : ended;
    all->begun = ended;
    all->entered = all->watched = all->first = all->paced = blocks;
    int soon = all->starved || !all->seen;
    all->tick_ns = !soon ? WATCH_TICK_NS : since > WAITING_BLOCKS ? LONGEST_TICK_NS : 2 * all->tick_ns;
    if (all->tick_ns > WATCH_TICK_NS)
        all->tick_ns = WATCH_TICK_NS;
    return passed;
}

/* From here on, the main thread's ticks alone count. */
static APART void begin_anew(struct quanta *quanta)
{
    quanta->tick_ns = SHORTEST_TICK_NS;
    quanta->waited = quanta->stood = 0;
    quanta->early = 2;
}

/* Returns how many quanta have ended at a tick of one of several threads. Each thread has a tick at the end of each of its
 * quanta, unless it came from a wait shortly before that end. */
static APART uint64_t quanta_of_thread(struct quanta *all, struct quanta *own, const void *context)
{
    int moved = went_on(own, context), calls = in_system_call(context);
    if (!moved)
        own->stood = 1;
    if (all == own && calls && own->stood) /* it may be the next call: the main thread has no quantum that ended */
        return quanta_unseen(all);
    if (!moved)
        return 0;
    if (all == own) {
        all->watched = all->waited = all->ticked = 0;
        all->starved = UNSTARVED;
    }
    uint64_t passed = calls ? 0 : 1, now = unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID);
    all->ticked += passed;
    if (calls ? now - all->left_ns > all->blocks * all->block_ps / 1000 : own->stood) {
        uint64_t missed = quanta_missed(all);
        passed = missed > passed ? missed : passed;
    }
    if (!calls)
        own->stood = 0;
    if (passed)
        all->left_ns = now;
    if (all->starved)
        return 0;
    all->counted += passed;
    return passed;
}

/* Returns how many quanta have ended since the last tick. A blocking system call consumes the tick that is pending for
 * the end of a quantum, and the next tick may come only after that end: then valgrind's statistics are used, and a
 * quantum that is about to end counts as ended. Without statistics, each tick outside a system call counts. */
static APART uint64_t quanta_since(struct quanta *quanta, const void *context)
{
    uint64_t blocks, ended;
    if (quanta->log < 0 || read_statistics(quanta, &blocks, &ended) != 0)
        return (uint64_t)ends_quantum(quanta, context);
    int moved = went_on(quanta, context), stands = !moved && ended == quanta->begun;
    quanta->stood = !moved && in_system_call(context) && blocks - quanta->left < WAITING_BLOCKS ? quanta->stood + 1 : 0;
    int waits = quanta->stood > WAITING_TICKS;
    quanta->waited += waits ? blocks - quanta->entered : 0;
    if (waits && (stands || quanta->waited > quanta->blocks / 2)) {
        /* The handling of ticks alone executes blocks, and ends quanta that are mostly its own: those do not count. */
        quanta->first = stands ? quanta->first + blocks - quanta->entered : blocks;
        quanta->counted = quanta->counted > ended ? quanta->counted : ended;
        quanta->waited = stands ? quanta->waited : 0;
        quanta->begun = ended;
        quanta->entered = blocks;
        quanta->tick_ns = quanta->tick_ns < LONGEST_TICK_NS ? 2 * quanta->tick_ns : LONGEST_TICK_NS;
        return 0;
    }
    quanta->waited = ended == quanta->begun ? quanta->waited : 0;
    int begins = ended != quanta->begun;
    spare_blocks(quanta, blocks, stands, begins);
    if (begins) {
        quanta->first = in_system_call(context) ? quanta->first + (ended - quanta->begun) * quanta->blocks : blocks;
        quanta->begun = ended;
    }
    int ends = in_system_call(context) && blocks - quanta->first + CLOSE_BLOCKS > quanta->blocks;
    uint64_t counted = ended + (uint64_t)ends, passed = counted > quanta->counted ? counted - quanta->counted : 0;
    quanta->counted += passed;
    if (!stands || blocks - quanta->left > WAITING_BLOCKS)
        pace(quanta, blocks, begins, in_system_call(context) && unperturbed_header->threads == 1);
    else if (quanta->tick_ns < LONGEST_TICK_NS)
        quanta->tick_ns = quanta->tick_ns < SHORTEST_TICK_NS ? SHORTEST_TICK_NS : 2 * quanta->tick_ns;
    if (quanta->early > 0) {
        quanta->early--;
        quanta->tick_ns = 1;
    }
    return passed;
}

#endif
