/* LU decomposition in one data type: datatypes.h includes this once for each, with TYPE and NAME(function) defined.
 *
 * For all that the compiler knows lower and upper overlap, and what was stored to one may be what is read of the other.
 * So the plain inner loop divides twice, as it is written; the optimised one keeps the quotient in a variable. That is
 * all they differ in.
 *
 * The inner loop goes down a column: of each line of a cache that it fetches it uses one element. */

static APART void NAME(decompose_plain)(TYPE *lower, TYPE *upper, int n)
{
    for (int k = 0; k < n - 1; k++)
        for (int j = k + 1; j < n; j++)
            for (int i = k + 1; i < n; i++) {
                lower[i * n + k] = upper[i * n + k] / upper[k * n + k];
                upper[i * n + j] -= upper[i * n + k] / upper[k * n + k] * upper[k * n + j];
            }
}

static APART void NAME(decompose_optimised)(TYPE *lower, TYPE *upper, int n)
{
    for (int k = 0; k < n - 1; k++)
        for (int j = k + 1; j < n; j++)
            for (int i = k + 1; i < n; i++) {
                TYPE quotient = upper[i * n + k] / upper[k * n + k];
                lower[i * n + k] = quotient;
                upper[i * n + j] -= quotient * upper[k * n + j];
            }
}

/* Decomposes the matrix of a problem so many times; returns whether the factors are those that it was made of. */
static int NAME(measure)(const struct problem *problem, int optimised, long repeats)
{
    int n = problem->n, right = 1;
    size_t size = (size_t)n * n;
    TYPE *matrix = allocate(size, sizeof(TYPE)), *lower = allocate(size, sizeof(TYPE)),
         *upper = allocate(size, sizeof(TYPE));
    for (size_t i = 0; i < size; i++)
        matrix[i] = (TYPE)problem->matrix[i];
    for (long repeat = 0; repeat < repeats; repeat++) {
        memcpy(upper, matrix, size * sizeof(TYPE));
        if (optimised)
            NAME(decompose_optimised)(lower, upper, n);
        else
            NAME(decompose_plain)(lower, upper, n);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            right &= j < i ? lower[i * n + j] == (TYPE)(problem->row[i] * problem->column[j])
                           : upper[i * n + j] == (TYPE)problem->upper[i * n + j];
    free(matrix);
    free(lower);
    free(upper);
    return right;
}
