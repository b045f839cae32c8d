#include "suffixsort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RADIX_DEPTH = 2, BUCKETS = 1 << 16, SMALL = 10 };

/* Bounds of the three parts of a partitioned array: less in [0, less), equal in [less, more), greater in [more, n). */
typedef struct {
    uint32_t less;
    uint32_t more;
} Partition;

Status suffixsort_open(SuffixSorter *sorter, uint32_t capacity)
{
    size_t n = (size_t)capacity + 1; /* never zero bytes: calloc may answer that with NULL */
    *sorter = (SuffixSorter){
        .capacity = capacity,
        .bucket_end = calloc(BUCKETS, sizeof *sorter->bucket_end),
        .suffix = calloc(n, sizeof *sorter->suffix),
        .rank = calloc(n, sizeof *sorter->rank),
        .leader = calloc(n, sizeof *sorter->leader),
        .ties = calloc(n / 2 + 1, sizeof *sorter->ties), /* a tie has two members at least */
        .ties_left = calloc(n / 2 + 1, sizeof *sorter->ties_left),
    };
    if (sorter->bucket_end && sorter->suffix && sorter->rank && sorter->leader && sorter->ties && sorter->ties_left)
        return STATUS_OK;
    suffixsort_close(sorter);
    return STATUS_MEMORY;
}

void suffixsort_close(SuffixSorter *sorter)
{
    free(sorter->bucket_end);
    free(sorter->suffix);
    free(sorter->rank);
    free(sorter->leader);
    free(sorter->ties);
    free(sorter->ties_left);
    *sorter = (SuffixSorter){0};
}

static void swap(uint32_t *a, uint32_t *b)
{
    uint32_t kept = *a;
    *a = *b;
    *b = kept;
}

static int64_t median_of_three(int64_t a, int64_t b, int64_t c)
{
    if (a < b)
        return b < c ? b : (a < c ? c : a);
    return a < c ? a : (b < c ? c : b);
}

static void add_tie(Range *ties, uint32_t *count, uint32_t start, uint32_t members)
{
    ties[(*count)++] = (Range){start, members};
}

/* ---- Phase 1: radix ---- */

static unsigned first_two_bytes(const uint8_t *text, uint32_t at) { return (unsigned)text[at] << 8 | text[at + 1]; }

static void deal_into_buckets(SuffixSorter *sorter, const uint8_t *text, uint32_t n)
{
    /* First the sizes, then the starts; each suffix that is dealt moves one to its end. */
    uint32_t *end = sorter->bucket_end;
    memset(end, 0, BUCKETS * sizeof *end);
    for (uint32_t i = 0; i < n; i++)
        end[first_two_bytes(text, i)]++;
    uint32_t sum = 0;
    for (unsigned b = 0; b < BUCKETS; b++) {
        uint32_t count = end[b];
        end[b] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++)
        sorter->suffix[end[first_two_bytes(text, i)]++] = i;
}

/* ---- Phase 2: multikey quicksort ---- */

/* Order of two suffixes that agree on `depth` bytes, on their first SORT_DEPTH. */
static int compare_suffixes(const uint8_t *text, uint32_t a, uint32_t b, uint32_t depth)
{
    const uint8_t *x = text + a;
    const uint8_t *y = text + b;
    while (depth < SORT_DEPTH) {
        if (x[depth] != y[depth])
            return x[depth] - y[depth];
        depth++;
    }
    return 0;
}

static void insertion_sort(SuffixSorter *sorter, const uint8_t *text, uint32_t start, uint32_t n, uint32_t depth)
{
    uint32_t *suffix = sorter->suffix + start;
    bool tied = false;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t inserted = suffix[i];
        uint32_t j = i;
        for (; j > 0; j--) {
            int order = compare_suffixes(text, suffix[j - 1], inserted, depth);
            tied |= order == 0;
            if (order <= 0)
                break;
            suffix[j] = suffix[j - 1];
        }
        suffix[j] = inserted;
    }
    for (uint32_t i = 0, j; tied && i < n; i = j) {
        for (j = i + 1; j < n && compare_suffixes(text, suffix[i], suffix[j], depth) == 0;)
            j++;
        if (j - i > 1)
            add_tie(sorter->ties, &sorter->tie_count, start + i, j - i);
    }
}

static Partition partition_by_byte(uint32_t *suffix, uint32_t n, const uint8_t *byte_of)
{
    uint8_t pivot = (uint8_t)median_of_three(byte_of[suffix[0]], byte_of[suffix[n / 2]], byte_of[suffix[n - 1]]);
    uint32_t less = 0;
    uint32_t more = n;
    for (uint32_t i = 0; i < more;) {
        uint8_t byte = byte_of[suffix[i]];
        if (byte < pivot)
            swap(&suffix[less++], &suffix[i++]);
        else if (byte > pivot)
            swap(&suffix[i], &suffix[--more]);
        else
            i++;
    }
    return (Partition){less, more};
}

/* Sort `n` suffixes that agree on `depth` bytes by their first SORT_DEPTH. What still ties is noted for phase 3. */
static void multikey_quicksort(SuffixSorter *sorter, const uint8_t *text, uint32_t start, uint32_t n, uint32_t depth)
{
    while (n > SMALL && depth < SORT_DEPTH) {
        Partition parts = partition_by_byte(sorter->suffix + start, n, text + depth);
        uint32_t equal = parts.more - parts.less;
        uint32_t greater = n - parts.more;
        /* Recursion into the smaller parts only: they are at most half, so the stack stays logarithmic. */
        if (equal >= parts.less && equal >= greater) {
            multikey_quicksort(sorter, text, start, parts.less, depth);
            multikey_quicksort(sorter, text, start + parts.more, greater, depth);
            start += parts.less;
            n = equal;
            depth++;
        } else {
            multikey_quicksort(sorter, text, start + parts.less, equal, depth + 1);
            bool left_is_larger = parts.less > greater;
            multikey_quicksort(sorter, text, left_is_larger ? start + parts.more : start,
                               left_is_larger ? greater : parts.less, depth);
            start += left_is_larger ? 0 : parts.more;
            n = left_is_larger ? parts.less : greater;
        }
    }
    if (n > 1 && depth == SORT_DEPTH)
        add_tie(sorter->ties, &sorter->tie_count, start, n);
    else if (n > 1)
        insertion_sort(sorter, text, start, n, depth);
}

static void sort_buckets(SuffixSorter *sorter, const uint8_t *text, Progress *progress)
{
    uint32_t start = 0;
    for (unsigned b = 0; b < BUCKETS; b++) {
        uint32_t n = sorter->bucket_end[b] - start;
        if (n == 0)
            continue;
        multikey_quicksort(sorter, text, start, n, RADIX_DEPTH);
        progress_advance(progress, n);
        start += n;
    }
}

/* ---- Phase 3: doubling ---- */

/* What the suffixes of a tie are sorted by: the rank of the suffix `h` further on. Ends of text come before all ranks,
 * and the shorter suffix first: the padding has made them look alike. */
static int64_t rank_at(const SuffixSorter *sorter, uint32_t n, uint32_t suffix, uint32_t h)
{
    int64_t at = (int64_t)suffix + h;
    return at < n ? (int64_t)sorter->rank[at] : (int64_t)n - at - 1;
}

static Partition partition_by_rank(const SuffixSorter *sorter, uint32_t text_n, uint32_t h, uint32_t *suffix,
                                   uint32_t n)
{
    int64_t pivot = median_of_three(rank_at(sorter, text_n, suffix[0], h), rank_at(sorter, text_n, suffix[n / 2], h),
                                    rank_at(sorter, text_n, suffix[n - 1], h));
    uint32_t less = 0;
    uint32_t more = n;
    for (uint32_t i = 0; i < more;) {
        int64_t rank = rank_at(sorter, text_n, suffix[i], h);
        if (rank < pivot)
            swap(&suffix[less++], &suffix[i++]);
        else if (rank > pivot)
            swap(&suffix[i], &suffix[--more]);
        else
            i++;
    }
    return (Partition){less, more};
}

static void sort_by_rank(const SuffixSorter *sorter, uint32_t text_n, uint32_t h, uint32_t *suffix, uint32_t n)
{
    while (n > 1) {
        Partition parts = partition_by_rank(sorter, text_n, h, suffix, n);
        uint32_t greater = n - parts.more;
        if (parts.less < greater) {
            sort_by_rank(sorter, text_n, h, suffix, parts.less);
            suffix += parts.more;
            n = greater;
        } else {
            sort_by_rank(sorter, text_n, h, suffix + parts.more, greater);
            n = parts.less;
        }
    }
}

/* Give the members of a sorted tie their new ranks and note what still ties. The ranks are stored after the last of
 * them has been read: a member may be the suffix `h` further on of another. */
static void split_tie(SuffixSorter *sorter, uint32_t text_n, uint32_t h, Range tie, uint32_t *left)
{
    const uint32_t *suffix = sorter->suffix + tie.start;
    uint32_t first = 0;
    for (uint32_t i = 0; i < tie.count; i++) {
        if (rank_at(sorter, text_n, suffix[i], h) != rank_at(sorter, text_n, suffix[first], h)) {
            if (i - first > 1)
                add_tie(sorter->ties_left, left, tie.start + first, i - first);
            first = i;
        }
        sorter->leader[i] = tie.start + first;
    }
    if (tie.count - first > 1)
        add_tie(sorter->ties_left, left, tie.start + first, tie.count - first);
    for (uint32_t i = 0; i < tie.count; i++)
        sorter->rank[suffix[i]] = sorter->leader[i];
}

static void rank_suffixes(SuffixSorter *sorter, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        sorter->rank[sorter->suffix[i]] = i;
    for (uint32_t t = 0; t < sorter->tie_count; t++) {
        Range tie = sorter->ties[t];
        for (uint32_t i = 0; i < tie.count; i++)
            sorter->rank[sorter->suffix[tie.start + i]] = tie.start;
    }
}

static void break_ties(SuffixSorter *sorter, uint32_t n, Progress *progress)
{
    for (uint32_t h = SORT_DEPTH; sorter->tie_count > 0; h *= 2) {
        uint32_t left = 0;
        uint32_t handled = 0; /* suffixes not reported yet: most ties have two or three */
        for (uint32_t t = 0; t < sorter->tie_count; t++) {
            Range tie = sorter->ties[t];
            sort_by_rank(sorter, n, h, sorter->suffix + tie.start, tie.count);
            split_tie(sorter, n, h, tie, &left);
            handled += tie.count;
            if (handled >= PROGRESS_BATCH) {
                progress_advance(progress, handled);
                handled = 0;
            }
        }
        progress_advance(progress, handled);
        Range *done = sorter->ties;
        sorter->ties = sorter->ties_left;
        sorter->ties_left = done;
        sorter->tie_count = left;
    }
}

void suffixsort(SuffixSorter *sorter, const uint8_t *text, uint32_t n, Progress *progress)
{
    sorter->tie_count = 0;
    deal_into_buckets(sorter, text, n);
    sort_buckets(sorter, text, progress);
    if (sorter->tie_count == 0)
        return;
    rank_suffixes(sorter, n);
    break_ties(sorter, n, progress);
}
