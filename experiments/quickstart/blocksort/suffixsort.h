/* Suffix sort in three phases.
 *
 *   1. radix      suffixes are dealt into 65,536 buckets by their first two bytes (counting sort)
 *   2. multikey   each bucket is sorted by three-way radix quicksort (Bentley and Sedgewick 1997), insertion sort for
 *                 small
 *                 ranges, on the first SORT_DEPTH bytes
 *   3. doubling   suffixes that still tie are sorted by the rank of the suffix SORT_DEPTH bytes further on, then twice
 *                 as far,
 *                 and so on (Larsson and Sadakane 1999)
 *
 * The first two are quick on ordinary data; the third bounds the time on repetitive data by O(n log^2 n).
 */
#ifndef SUFFIXSORT_H
#define SUFFIXSORT_H

#include <stdint.h>

#include "progress.h"
#include "status.h"

enum { SORT_DEPTH = 8 };
/* Zero bytes that must follow a text: a suffix is read past its end, never further. */
enum { SORT_PADDING = SORT_DEPTH };

typedef struct {
    uint32_t start; /* index of the first suffix of the range */
    uint32_t count;
} Range;

/* Work space of a sort, for texts of up to `capacity` bytes. */
typedef struct {
    uint32_t capacity;
    uint32_t *bucket_end; /* of each bucket of the first phase: the index after its last suffix */
    /* The result: where each suffix starts, in lexicographic order; an end of text sorts before any byte. */
    uint32_t *suffix;
    uint32_t *rank;   /* of a suffix: the index of the first suffix that is not known to differ from it */
    uint32_t *leader; /* scratch of the third phase: new ranks of one range */
    Range *ties;      /* ranges whose suffixes agree as far as they have been compared */
    Range *ties_left; /* the same for the next round */
    uint32_t tie_count;
} SuffixSorter;

Status suffixsort_open(SuffixSorter *sorter, uint32_t capacity);
void suffixsort_close(SuffixSorter *sorter);

/* Sort the suffixes of `n` bytes, which SORT_PADDING zero bytes follow, into `sorter->suffix`. */
void suffixsort(SuffixSorter *sorter, const uint8_t *text, uint32_t n, Progress *progress);

#endif
