/* lu N DATATYPE OPTIMISATION [OPERATIONS]: LU decomposition of an N × N matrix, again and again, until at least so many
 * operations are done.
 *
 * The experiment of Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer programs",
 * section 8.2: six data types, and an inner loop that divides twice (0) or once (1). An operation is one pass of the
 * inner loop; a decomposition has N (N - 1) (2 N - 1) / 6 of them.
 *
 * The matrix is the product of two factors of whole numbers, which each data type finds exactly, so that every run
 * prints the same for the same N. The lower factor has row[i] column[k] = ±1 below its diagonal of ones; the upper one
 * has -1, 0 or 1 above its diagonal of 2 to 9, which are the pivots. No element ever exceeds N + 9, which a short can
 * hold; a char could not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline)) /* inlined, the compiler would see that the factors are two pieces of memory */

enum { SMALLEST = 2, LARGEST = 2000, OPERATIONS = 20000000 };

struct problem {
    int n;
    short *matrix, *upper;
    signed char *row, *column;
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
        perror("lu");
        exit(2);
    }
    return memory;
}

static struct problem make_problem(int n)
{
    size_t size = (size_t)n * n;
    struct problem made = {n, allocate(size, sizeof(short)), allocate(size, sizeof(short)), allocate(n, 1),
                           allocate(n, 1)};
    int *sums = allocate(n, sizeof(int)); /* of the rows above, each times its column's sign */
    for (int i = 0; i < n; i++) {
        made.row[i] = draw(2) ? 1 : -1;
        made.column[i] = draw(2) ? 1 : -1;
        for (int j = i; j < n; j++)
            made.upper[i * n + j] = (short)(j == i ? 2 + (int)draw(8) : (int)draw(3) - 1);
        for (int j = 0; j < n; j++) {
            made.matrix[i * n + j] = (short)(made.upper[i * n + j] + made.row[i] * sums[j]);
            sums[j] += made.column[i] * made.upper[i * n + j];
        }
    }
    free(sums);
    return made;
}

typedef int measure(const struct problem *, int, long);
#define OPERATIONS_HEADER "decompose.h"
#include "datatypes.h"

int main(int count, char **argument)
{
    int n = count > 3 ? atoi(argument[1]) : 0, optimised = count > 3 && strcmp(argument[3], "1") == 0;
    long wanted = count > 4 ? atol(argument[4]) : OPERATIONS;
    if (n < SMALLEST || n > LARGEST || wanted < 1 || (!optimised && strcmp(argument[3], "0") != 0)) {
        fprintf(stderr, "usage: lu N (%d to %d) DATATYPE OPTIMISATION (0 or 1) [OPERATIONS]\n", SMALLEST, LARGEST);
        return 2;
    }
    long operations = (long)n * (n - 1) * (2 * n - 1) / 6, repeats = (wanted + operations - 1) / operations;
    for (size_t i = 0; i < sizeof datatypes / sizeof *datatypes; i++) {
        if (strcmp(argument[2], datatypes[i].name) != 0)
            continue;
        struct problem problem = make_problem(n);
        long checksum = 0;
        if (!datatypes[i].measure(&problem, optimised, repeats)) {
            fprintf(stderr, "lu: these are not the factors of the matrix\n");
            return 1;
        }
        for (long j = 0; j < (long)n * n; j++)
            checksum += (j % 97 + 1) * problem.matrix[j];
        printf("%d %ld %ld\n", n, repeats, checksum);
        return 0;
    }
    fprintf(stderr, "lu: the data types are short, int, long, float, double, longdouble\n");
    return 2;
}
