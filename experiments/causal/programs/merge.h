/* Merge sort in one data type: datatypes.h includes this once for each, with TYPE and NAME(function) defined.
 *
 * Both ways merge the same number of elements to and fro between two arrays, in the same loop; only the order differs.
 * By passes, all of the array is gone through at each width of the sorted pieces. Recursively, a half is sorted to the
 * end before the other is begun, so that from some depth on all of it is in a cache, however long the array is. */

/* Merges from[begin … middle) and from[middle … end), both sorted, into to. An operation is one element of it. */
static APART void NAME(merge)(const TYPE *from, TYPE *to, long begin, long middle, long end)
{
    long one = begin, other = middle;
    for (long place = begin; place < end; place++)
        if (other >= end || (one < middle && from[one] <= from[other]))
            to[place] = from[one++];
        else
            to[place] = from[other++];
}

/* Returns which of the two arrays, the elements in the first, is sorted then. */
static TYPE *NAME(sort_by_passes)(TYPE *first, TYPE *second, long n)
{
    for (long width = 1; width < n; width *= 2) {
        for (long begin = 0; begin < n; begin += 2 * width)
            NAME(merge)(first, second, begin, begin + width < n ? begin + width : n,
                        begin + 2 * width < n ? begin + 2 * width : n);
        TYPE *sorted = second;
        second = first;
        first = sorted;
    }
    return first;
}

/* Sorts a piece of to; both arrays hold the same elements there, and the other is working space. */
static void NAME(sort_recursively)(TYPE *other, TYPE *to, long begin, long end)
{
    if (end - begin < 2)
        return;
    long middle = begin + (end - begin) / 2;
    NAME(sort_recursively)(to, other, begin, middle);
    NAME(sort_recursively)(to, other, middle, end);
    NAME(merge)(other, to, begin, middle, end);
}

/* Sorts n elements of a problem so many times; stores what came out the last time. Each time begins at another element,
 * so that the branches go differently: a branch predictor that has learnt the answers would measure itself. */
static void NAME(measure)(const struct problem *problem, int recursive, long repeats, short *result)
{
    long n = problem->n;
    TYPE *elements = allocate(n + SHIFTS, sizeof(TYPE)), *first = allocate(n, sizeof(TYPE)),
         *second = allocate(n, sizeof(TYPE)), *sorted = first;
    for (long i = 0; i < n + SHIFTS; i++)
        elements[i] = problem->elements[i];
    for (long repeat = 0; repeat < repeats; repeat++) {
        memcpy(first, elements + shift_of(repeat), n * sizeof(TYPE));
        if (recursive) {
            memcpy(second, first, n * sizeof(TYPE));
            NAME(sort_recursively)(second, first, 0, n);
        } else
            sorted = NAME(sort_by_passes)(first, second, n);
    }
    for (long i = 0; i < n; i++)
        result[i] = (short)sorted[i];
    free(elements);
    free(first);
    free(second);
}
