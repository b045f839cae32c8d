/* Run-length stage: four equal bytes are followed by a byte that says how many more (0 to 255) there are.
 *
 * It keeps long runs away from the sort, whose comparisons they would lengthen.
 */
#ifndef RUNLENGTH_H
#define RUNLENGTH_H

#include <stdbool.h>
#include <stdint.h>

/* Most bytes that `n` bytes can become: each four equal ones grow by one. */
static inline uint32_t runlength_bound(uint32_t n) { return n + n / 4; }

/* Encode `n` bytes into `out`, which has room for `runlength_bound(n)`. Returns the bytes written. */
uint32_t runlength_encode(const uint8_t *in, uint32_t n, uint8_t *out);

/* Decode `n` bytes into exactly `out_n`. False when they decode to another number of bytes. */
bool runlength_decode(const uint8_t *in, uint32_t n, uint8_t *out, uint32_t out_n);

#endif
