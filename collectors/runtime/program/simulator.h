/* Requests to callgrind, which ends intervals at them. Included only by sampler.c. */
#ifndef UNPERTURBED_SIMULATOR_H
#define UNPERTURBED_SIMULATOR_H

#include "../common/runtime.h"

#include <string.h>

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
#ifndef VALGRIND_MONITOR_COMMAND
#define VALGRIND_MONITOR_COMMAND(command) ((void)(command))
#endif

/* Writes a number, as the end of a text; returns the text's length. */
static APART int append_number(char *label, int end, uint64_t number)
{
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) && count < (int)sizeof digits);
    while (count)
        label[end++] = digits[--count];
    label[end] = 0;
    return end;
}

/* The regions that the program is in, by their numbers. Under the simulator, the program has one thread. */
static uint64_t current_regions;

/* Makes callgrind end a part of an interval, labelled with the regions in which its events happened. */
static void cross_simulated(uint32_t number)
{
    char label[32] = "within ";
    append_number(label, 7, current_regions);
    (void)label; /* unused without valgrind */
    CALLGRIND_DUMP_STATS_AT(label);
    current_regions ^= (uint64_t)1 << number;
}

/* Makes callgrind end an interval labelled with the record's number: a dump contains the events since the last dump. If
 * callgrind separates threads, those of this thread. */
static APART void dump_simulated(uint64_t position)
{
    static const char within[] = " within ";
    char label[64] = "interval ";
    int end = append_number(label, 9, position);
    if (current_regions) {
        memcpy(label + end, within, sizeof within);
        append_number(label, end + (int)sizeof within - 1, current_regions);
    }
    (void)label; /* unused without valgrind */
    CALLGRIND_DUMP_STATS_AT(label);
}

/* The same for all threads, if callgrind separates them: the request above would end the interval of this one alone. */
static APART void dump_all_simulated(uint64_t position)
{
    char command[32] = "dump interval ";
    append_number(command, 14, position);
    VALGRIND_MONITOR_COMMAND(command);
}

#endif
