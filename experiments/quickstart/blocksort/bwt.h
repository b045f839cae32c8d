/* Burrows-Wheeler transform (1994): the bytes before the sorted suffixes, so that bytes with like contexts stand
 * together. */
#ifndef BWT_H
#define BWT_H

#include <stdbool.h>
#include <stdint.h>

#include "suffixsort.h"

/* Transform `n` >= 1 bytes, which SORT_PADDING zero bytes follow, into as many of `out`.
 *
 * Returns the primary index, in [1, n]: the row of the whole text among the sorted suffixes, the empty suffix being row
 * 0. */
uint32_t bwt_forward(SuffixSorter *sorter, const uint8_t *text, uint32_t n, uint8_t *out, Progress *progress);

/* Undo it. `previous` is scratch for n + 1 entries. False when no text has this transform. */
bool bwt_inverse(const uint8_t *in, uint32_t n, uint32_t primary, uint8_t *text, uint32_t *previous);

#endif
