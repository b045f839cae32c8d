/* Coding of move-to-front symbols, bit by bit, in the context of the symbol before.
 *
 * A symbol's class is the number of binary digits of (symbol + 1), less one. The class is coded in unary, the further
 * digits from the highest on, and every such decision has an adaptive probability of its own for each class of the
 * symbol before.
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "arithmetic.h"
#include "progress.h"

/* Code `n` symbols, the last of which is MTF_END. */
void symbols_encode(const uint16_t *symbols, uint32_t n, Encoder *encoder, Progress *progress);

/* Decode symbols up to MTF_END, `capacity` at most. False when they are more, or when the code does not end with
 * them. */
bool symbols_decode(Decoder *decoder, uint16_t *symbols, uint32_t capacity);

#endif
