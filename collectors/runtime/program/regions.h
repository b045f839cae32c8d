/* Regions: functions within which hardware events are counted. Included only by sampler.c.
 *
 * A region's counts are the differences of the thread's counters between its entry and its leaving: one reading at each,
 * and a few tens of instructions. A call within a call of the same region is part of it.
 */
#ifndef UNPERTURBED_REGIONS_H
#define UNPERTURBED_REGIONS_H

#include "../common/runtime.h"
#include "../common/sources.h"

#include <string.h>

enum { RED_ZONE = 128 }; /* of x86-64, in bytes */

/* What one thread is in. */
struct regions {
    uint32_t depth[UNPERTURBED_REGIONS];
    const char *stack[UNPERTURBED_REGIONS]; /* at the outermost entry */
    const char *place[UNPERTURBED_REGIONS]; /* the instruction there */
    int64_t begin[UNPERTURBED_REGIONS];     /* the event's count there, or at the last record */
    int late;                               /* ticks during a reading at an entry or a leaving */
};

static int64_t region_counts[UNPERTURBED_REGIONS]; /* of all threads, until each one's last record or leaving */

/* Whether a thread is at a region's entry or leaving: a tick then waits, because sources cannot be read twice at once. */
static __thread volatile int is_crossing __attribute__((tls_model("initial-exec")));

/* Counts a region up to now. */
static void count_region(struct regions *regions, uint32_t number, int64_t now)
{
    __atomic_fetch_add(&region_counts[number], now - regions->begin[number], __ATOMIC_RELAXED);
    regions->begin[number] = now;
}

/* Adds the counts of regions to a record: of those that the thread is in, up to the record. About 10 instructions for
 * each software metric. */
static APART void read_regions(struct regions *regions, const struct unperturbed_header *header, const int64_t *events,
                               int64_t *software)
{
    for (uint32_t number = 0; number < UNPERTURBED_REGIONS && number < header->software; number++) {
        if (!header->region[number])
            continue;
        if (regions->depth[number])
            count_region(regions, number, events[header->region[number] - 1]);
        software[number] += __atomic_load_n(&region_counts[number], __ATOMIC_RELAXED);
    }
}

/* Notes an entry or a leaving; returns whether it is the outermost one. */
static int is_outermost(struct regions *regions, uint32_t number, int leaves, const char *stack)
{
    if (leaves)
        return regions->depth[number] > 0 && --regions->depth[number] == 0;
    if (regions->depth[number]++ == 0) {
        regions->stack[number] = stack;
        regions->place[number] = ((const char *const *)stack)[-1]; /* the return address */
        return 1;
    }
    if (stack >= regions->stack[number]) /* the stack grows down: the outer call has ended */
        unperturbed_mark(MARK_LEFT);
    return 0;
}

/* Notes that a region was left unnoticed: the thread's stack, which grows down, ends above the function's part. */
static APART void check_left(const struct regions *regions, const char *stack)
{
    for (uint32_t number = 0; number < UNPERTURBED_REGIONS; number++)
        if (regions->depth[number] && stack > regions->stack[number])
            unperturbed_mark(MARK_LEFT);
}

/* Notes that a jump leaves a region: it goes to a place above the function's part of the stack, or, where the function is
 * inlined, to one in the same part that comes before the function's entry. */
static APART void check_jump(const struct regions *regions, uint32_t software, const char *stack, const char *place)
{
    for (uint32_t number = 0; number < UNPERTURBED_REGIONS && number < software; number++)
        if (regions->depth[number] &&
            (stack > regions->stack[number] || (stack == regions->stack[number] && place < regions->place[number])))
            unperturbed_mark(MARK_LEFT);
}

/* In a forked child, whose counters begin at 0. */
static void keep_regions(struct regions *regions, const struct regions *parent)
{
    *regions = *parent;
    memset(regions->begin, 0, sizeof regions->begin);
}

#endif
