/* mergesort N DATATYPE WAY [OPERATIONS]: merge sort of N elements, again and again, until at least so many operations
 * are done.
 *
 * One of the two further programs of Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer
 * programs", section 8.4, in the six data types of its LU decomposition. WAY is passes or recursive: the paper does not
 * say which it was. An operation is one element merged; a sort has some N log2 N of them (by passes N times log2 N
 * rounded up).
 *
 * Elements are random whole numbers from 0 to 29,999, which every data type holds. The result is sorted and has each
 * number as often as the input. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline)) /* one merge loop for both ways to sort */

enum { SMALLEST = 2, LARGEST = 4000000, OPERATIONS = 5000000, RANGE = 30000, SHIFTS = 1024 };

struct problem {
    long n;
    short *elements; /* n + SHIFTS */
};

static unsigned state = 20070611;

static unsigned draw(unsigned below)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % below;
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory) {
        perror("mergesort");
        exit(2);
    }
    return memory;
}

static struct problem make_problem(long n)
{
    struct problem made = {n, allocate(n + SHIFTS, sizeof(short))};
    for (long i = 0; i < n + SHIFTS; i++)
        made.elements[i] = (short)draw(RANGE);
    return made;
}

/* Returns at which element of the problem a repetition begins. */
static long shift_of(long repeat) { return repeat * 61 % SHIFTS; }

static int is_right(const short *sorted, const short *elements, long n)
{
    int *missing = allocate(RANGE, sizeof(int)), right = 1;
    for (long i = 0; i < n; i++)
        missing[elements[i]]++;
    for (long i = 0; i < n; i++)
        right &=
            sorted[i] >= 0 && sorted[i] < RANGE && missing[sorted[i]]-- > 0 && (i == 0 || sorted[i - 1] <= sorted[i]);
    free(missing);
    return right;
}

typedef void measure(const struct problem *, int, long, short *);
#define OPERATIONS_HEADER "merge.h"
#include "datatypes.h"

/* Returns how many elements are merged in one sort: by passes all of them in each, recursively what the halves take and
 * all of them once more. */
static long operations_of(long n, int recursive)
{
    if (n < 2)
        return 0;
    if (recursive)
        return n + operations_of(n / 2, 1) + operations_of(n - n / 2, 1);
    long operations = 0;
    for (long width = 1; width < n; width *= 2)
        operations += n;
    return operations;
}

int main(int count, char **argument)
{
    long n = count > 3 ? atol(argument[1]) : 0, wanted = count > 4 ? atol(argument[4]) : OPERATIONS;
    int recursive = count > 3 && strcmp(argument[3], "recursive") == 0;
    if (n < SMALLEST || n > LARGEST || wanted < 1 || (!recursive && strcmp(argument[3], "passes") != 0)) {
        fprintf(stderr, "usage: mergesort N (%d to %d) DATATYPE WAY (passes or recursive) [OPERATIONS]\n", SMALLEST,
                LARGEST);
        return 2;
    }
    long operations = operations_of(n, recursive), repeats = (wanted + operations - 1) / operations;
    for (size_t type = 0; type < sizeof datatypes / sizeof *datatypes; type++) {
        if (strcmp(argument[2], datatypes[type].name) != 0)
            continue;
        struct problem problem = make_problem(n);
        short *sorted = allocate(n, sizeof(short));
        long checksum = 0;
        datatypes[type].measure(&problem, recursive, repeats, sorted);
        if (!is_right(sorted, problem.elements + shift_of(repeats - 1), n)) {
            fprintf(stderr, "mergesort: these are not the elements in order\n");
            return 1;
        }
        for (long i = 0; i < n; i++)
            checksum += (i % 97 + 1) * sorted[i];
        printf("%ld %ld %ld\n", n, repeats, checksum);
        return 0;
    }
    fprintf(stderr, "mergesort: the data types are short, int, long, float, double, longdouble\n");
    return 2;
}
