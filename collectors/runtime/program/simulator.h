/* What the inside sampler asks of callgrind, and what it must know of valgrind's quanta. Included by inside.c alone. */
#ifndef UNPERTURBED_SIMULATOR_H
#define UNPERTURBED_SIMULATOR_H

#include "../common/runtime.h"

#include <string.h>
#include <ucontext.h>

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

/* Far shorter than a simulator's quantum, so that one tick waits at the end of each. It is armed anew at every tick,
 * and yet a second one may wait already when the handler is left (the host was busy meanwhile): valgrind looks for
 * signals there, and delivers it before the program did anything. */
#define WORK_TICK_NS 200000
#define UNEVEN_SHARE 20 /* one tick in so many lost to system calls, and intervals of work are no longer even */
#define REGISTERS 34    /* at most */

/* Quanta of work, of 100,000 basic blocks each. */
struct quanta {
    uint64_t count;                /* since the last record */
    uint64_t all;                  /* since the beginning */
    uint64_t calls;                /* ticks that came by a system call instead */
    uint64_t registers[REGISTERS]; /* of the program at the last tick */
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
    (void)label; /* where valgrind does not run, it is asked for nothing */
    CALLGRIND_DUMP_STATS_AT(label);
}

#if defined(__x86_64__)
/* General registers, the next instruction and the flags. */
static const void *registers(const ucontext_t *context) { return context->uc_mcontext.gregs; }
static const size_t registers_size = (REG_EFL + 1) * sizeof(greg_t);

/* Tells whether the tick came by a system call that waited, not at the end of a quantum: the word before the next
 * instruction is `syscall`. */
static int in_system_call(const ucontext_t *context)
{
    const unsigned char *next = (const unsigned char *)context->uc_mcontext.gregs[REG_RIP];
    return next[-2] == 0x0f && next[-1] == 0x05;
}
#elif defined(__aarch64__)
/* General registers, the stack's end, the next instruction and the state word, which lie behind each other. */
static const void *registers(const ucontext_t *context) { return context->uc_mcontext.regs; }
static const size_t registers_size = REGISTERS * sizeof(uint64_t);

static int in_system_call(const ucontext_t *context)
{
    (void)context;
    return 0;
}
#else
static const void *registers(const ucontext_t *context) { return context; }
static const size_t registers_size = 0;

static int in_system_call(const ucontext_t *context)
{
    (void)context;
    return 0;
}
#endif

/* Tells whether the program did something since the last tick. No time is asked: it passes on a busy host, or under a
 * hypervisor, whoever works. */
static int went_on(struct quanta *quanta, const ucontext_t *context)
{
    if (registers_size == 0)
        return 1;
    int stands = memcmp(quanta->registers, registers(context), registers_size) == 0;
    memcpy(quanta->registers, registers(context), registers_size);
    return !stands;
}

/* A tick at the end of a quantum of work; not one that came while a call waited, nor one that came before the program
 * went on after the last. */
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

#endif
