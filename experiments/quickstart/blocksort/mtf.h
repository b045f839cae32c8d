/* Move-to-front coding (Bentley et al. 1986) with coded runs of zeros.
 *
 * A byte becomes its place in a list of all bytes, and moves to the list's front. After a Burrows-Wheeler transform
 * most places are 0, in long runs; a run's length is written in bijective base 2 with the digits MTF_RUN_A (1) and
 * MTF_RUN_B (2), the lowest first. Place p > 0 becomes symbol p + 1, and MTF_END follows the last.
 */
#ifndef MTF_H
#define MTF_H

#include <stdbool.h>
#include <stdint.h>

#include "progress.h"

enum { MTF_RUN_A, MTF_RUN_B, MTF_END = 257, MTF_SYMBOLS };

/* Encode `n` bytes into `out`, which has room for n + 1 symbols. Returns the symbols written, MTF_END among them. */
uint32_t mtf_encode(const uint8_t *in, uint32_t n, uint16_t *out, Progress *progress);

/* Decode symbols up to MTF_END into exactly `out_n` bytes. False when they decode to another number of bytes. */
bool mtf_decode(const uint16_t *in, uint8_t *out, uint32_t out_n);

#endif
