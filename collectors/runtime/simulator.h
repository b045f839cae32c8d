/* What the inside sampler asks of callgrind, and what it must know of valgrind's quanta. Included by inside.c alone. */
#ifndef UNPERTURBED_SIMULATOR_H
#define UNPERTURBED_SIMULATOR_H

#include "runtime.h"

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

/* Far shorter than a simulator's quantum, so that one tick waits at the end of each. It is armed anew at every tick: a second one that waited already would
 * be delivered at once, before the program did anything. */
#define WORK_TICK_NS 200000
#define UNEVEN_SHARE 20 /* one tick in so many lost to system calls, and intervals of work are no longer even */
/* Of processor time: a quantum of the smallest blocks takes 1 to 3 ms, leaving the handler and going back a tenth of this. */
#define SHORTEST_QUANTUM_NS 500000

/* Quanta of work, of 100,000 basic blocks each. */
struct quanta {
    uint64_t count;  /* since the last record */
    uint64_t all;    /* since the beginning */
    uint64_t calls;  /* ticks that came by a system call instead */
    int64_t left_ns; /* the processor time at which the last tick was left, */
    uintptr_t place; /* and where the program stood then */
};

/* Has callgrind end an interval that carries the record's number: its dumps hold the events since the dump before. */
static APART void dump_simulated(uint64_t position)
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

#if defined(__x86_64__)
#include <ucontext.h>
static uintptr_t next_instruction(void *context) { return (uintptr_t)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP]; }

/* Tells whether the tick came by a system call that waited, not at the end of a quantum: the word before the next instruction is `syscall`. */
static int in_system_call(void *context)
{
    const unsigned char *next = (const unsigned char *)next_instruction(context);
    return next[-2] == 0x0f && next[-1] == 0x05;
}
#else
static uintptr_t next_instruction(void *context)
{
    (void)context;
    return 0;
}

static int in_system_call(void *context)
{
    (void)context;
    return 0;
}
#endif

/* A tick at the end of a quantum of work; not one that came while a call waited, nor one that came before the program went on after the last. */
static int ends_quantum(struct quanta *quanta, void *context)
{
    uintptr_t place = next_instruction(context);
    int stands = place == quanta->place;
    quanta->place = place;
    if (in_system_call(context)) {
        quanta->calls++;
        return 0;
    }
    quanta->all++;
    return !(stands && unperturbed_nanoseconds(CLOCK_PROCESS_CPUTIME_ID) - quanta->left_ns < SHORTEST_QUANTUM_NS);
}

#endif
