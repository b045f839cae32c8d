/* Measures the cost of a kernel probe's hit: calls two functions with and without a probe. The kernel emulates the
 * first instruction of one function, and single-steps the other's.
 *
 * Prints the file offsets of both functions; reads the id of a tracepoint registered for them; prints the ns per hit of
 * each.
 */
#define _GNU_SOURCE
#include "../common/sources.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCKS 9
#define CHEAP_CALLS 300 /* a block must be longer than the clock's resolution, and shorter than a time slice */
#define DEAR_CALLS 100

#if defined(__x86_64__) || defined(__i386__)
#define OTHER "mov %eax, %eax"
#elif defined(__aarch64__)
#define OTHER "mov x9, x9"
#else
#define OTHER "nop"
#endif

#define FUNCTION(name, first) \
    __asm__(".text\n.p2align 6\n.type " #name ", %function\n" #name ":\n" first "\nret\n.size " #name ", .-" #name \
            "\n"); \
    extern void name(void) __attribute__((visibility("hidden")))

FUNCTION(cheap_function, "nop");
FUNCTION(dear_function, OTHER);

static struct unperturbed_header header;

/* Returns the offset of a function in this program's file. */
static unsigned long file_offset(void (*function)(void))
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long begin, end, offset, found = 0;
    char line[512];
    while (maps && fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 && (unsigned long)function >= begin &&
            (unsigned long)function < end)
            found = (unsigned long)function - begin + offset;
    if (maps)
        fclose(maps);
    return found;
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double call_ns(void (*function)(void), int calls)
{
    double block[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        double began = now_ns();
        for (int call = 0; call < calls; call++)
            function();
        block[i] = (now_ns() - began) / calls;
    }
    qsort(block, BLOCKS, sizeof *block, compare);
    return block[BLOCKS / 2];
}

int main(void)
{
    struct unperturbed_probes probes;
    unsigned long tracepoint;
    printf("%lu %lu\n", file_offset(cheap_function), file_offset(dear_function));
    fflush(stdout);
    if (scanf("%lu", &tracepoint) != 1)
        return 2;
    double cheap = call_ns(cheap_function, CHEAP_CALLS), dear = call_ns(dear_function, DEAR_CALLS);
    header.software = header.probes = 1;
    header.probe[0].tracepoint = tracepoint;
    snprintf(header.probe[0].name, sizeof header.probe[0].name, "the trial's own function");
    if (unperturbed_probes_open(&probes, &header, 0) != 0) {
        fprintf(stderr, "%s\n", header.message);
        return 1;
    }
    int64_t hits = 0;
    printf("%.1f %.1f\n", call_ns(cheap_function, CHEAP_CALLS) - cheap, call_ns(dear_function, DEAR_CALLS) - dear);
    if (unperturbed_probes_read(&probes, &header, &hits) != 0 || hits != BLOCKS * (CHEAP_CALLS + DEAR_CALLS)) {
        fprintf(stderr, "%lld of %d hits were counted\n", (long long)hits, BLOCKS * (CHEAP_CALLS + DEAR_CALLS));
        return 1;
    }
    return 0;
}
