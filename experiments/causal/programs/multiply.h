/* Matrix multiplication in one data type: datatypes.h includes this once for each, with TYPE and NAME(function) defined.
 *
 * For all that the compiler knows the product may overlap the factors, so that each pass of the inner loop reads and
 * writes its element of the product.
 *
 * The inner loop goes down a column of the right factor: of each line of a cache that it fetches it uses one element,
 * and the next column the next one. */

static APART void NAME(multiply)(const TYPE *left, const TYPE *right, TYPE *product, int n)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                product[i * n + j] += left[i * n + k] * right[k * n + j];
}

/* Multiplies the matrices of a problem so many times; stores product · weights, which tells whether the product is
 * right. */
static void NAME(measure)(const struct problem *problem, long repeats, long *weighed)
{
    int n = problem->n;
    size_t size = (size_t)n * n;
    TYPE *left = allocate(size, sizeof(TYPE)), *right = allocate(size, sizeof(TYPE)),
         *product = allocate(size, sizeof(TYPE));
    for (size_t i = 0; i < size; i++) {
        left[i] = problem->left[i];
        right[i] = problem->right[i];
    }
    for (long repeat = 0; repeat < repeats; repeat++) {
        memset(product, 0, size * sizeof(TYPE)); /* which is 0 in every data type */
        NAME(multiply)(left, right, product, n);
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            weighed[i] += (long)product[i * n + j] * problem->weights[j];
    free(left);
    free(right);
    free(product);
}
