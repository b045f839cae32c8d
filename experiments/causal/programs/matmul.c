/* matmul N DATATYPE [OPERATIONS]: the product of two N × N matrices, again and again, until at least so many operations
 * are done.
 *
 * One of the two further programs of Lemeire, Dirkx and Verbist, "Causal analysis for performance modeling of computer
 * programs", section 8.4, in the six data types of its LU decomposition. An operation is one pass of the inner loop; a
 * product has N³ of them.
 *
 * Elements are -3 to 3, so that no sum exceeds 9 N, which a short can hold, and all data types find the same. The
 * product is checked in N² steps, as product · weights = left · (right · weights) with random weights (Freivalds); a
 * wrong product passes once in 65,536 times. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Inlined, the compiler would see that the matrices are three pieces of memory. */
#define APART __attribute__((noinline))

enum { SMALLEST = 2, LARGEST = 2000, OPERATIONS = 10000000 };

struct problem {
    int n;
    signed char *left, *right;
    long *weights;
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
        perror("matmul");
        exit(2);
    }
    return memory;
}

static struct problem make_problem(int n)
{
    size_t size = (size_t)n * n;
    struct problem made = {n, allocate(size, 1), allocate(size, 1), allocate(n, sizeof(long))};
    for (size_t i = 0; i < size; i++) {
        made.left[i] = (signed char)((int)draw(7) - 3);
        made.right[i] = (signed char)((int)draw(7) - 3);
    }
    for (int i = 0; i < n; i++)
        made.weights[i] = draw(65536);
    return made;
}

/* Stores matrix · vector. */
static void apply(const signed char *matrix, const long *vector, long *result, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            result[i] += matrix[i * n + j] * vector[j];
}

typedef void measure(const struct problem *, long, long *);
#define OPERATIONS_HEADER "multiply.h"
#include "datatypes.h"

int main(int count, char **argument)
{
    int n = count > 2 ? atoi(argument[1]) : 0;
    long wanted = count > 3 ? atol(argument[3]) : OPERATIONS;
    if (n < SMALLEST || n > LARGEST || wanted < 1) {
        fprintf(stderr, "usage: matmul N (%d to %d) DATATYPE [OPERATIONS]\n", SMALLEST, LARGEST);
        return 2;
    }
    long operations = (long)n * n * n, repeats = (wanted + operations - 1) / operations;
    for (size_t type = 0; type < sizeof datatypes / sizeof *datatypes; type++) {
        if (strcmp(argument[2], datatypes[type].name) != 0)
            continue;
        struct problem problem = make_problem(n);
        long *weighed = allocate(n, sizeof(long)), *halfway = allocate(n, sizeof(long)),
             *expected = allocate(n, sizeof(long)), checksum = 0;
        datatypes[type].measure(&problem, repeats, weighed);
        apply(problem.right, problem.weights, halfway, n);
        apply(problem.left, halfway, expected, n);
        if (memcmp(weighed, expected, n * sizeof(long)) != 0) {
            fprintf(stderr, "matmul: this is not the product of the matrices\n");
            return 1;
        }
        for (int i = 0; i < n; i++)
            checksum += (i % 97 + 1) * weighed[i];
        printf("%d %ld %ld\n", n, repeats, checksum);
        return 0;
    }
    fprintf(stderr, "matmul: the data types are short, int, long, float, double, longdouble\n");
    return 2;
}
