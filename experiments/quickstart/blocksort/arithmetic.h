/* Binary arithmetic coding with adaptive probabilities.
 *
 * The coder holds an interval of 32-bit numbers. A bit narrows it to its share, and the bytes that the interval's ends
 * have in common are final. The coder is carry-free, as in Mahoney's PAQ; a probability is the mean of a quick and a
 * slow estimate, as in the video standard VVC.
 */
#ifndef ARITHMETIC_H
#define ARITHMETIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Two estimates of the probability that the next bit is 1, in units of 2^-16. */
typedef struct {
    uint16_t quick;
    uint16_t slow;
} BitModel;

static const BitModel bit_model_start = {1 << 15, 1 << 15};

typedef struct {
    uint32_t low;
    uint32_t high;
    uint8_t *bytes;
    size_t capacity;
    size_t length;
    bool overflow; /* the bytes did not suffice; nothing was written beyond them */
} Encoder;

typedef struct {
    uint32_t low;
    uint32_t high;
    uint32_t value; /* the code's bytes that are inside the interval's */
    const uint8_t *bytes;
    size_t length;
    size_t next;
} Decoder;

Encoder encoder_start(uint8_t *bytes, size_t capacity);
void encode_bit(Encoder *encoder, BitModel *model, unsigned bit);
void encoder_finish(Encoder *encoder);

Decoder decoder_start(const uint8_t *bytes, size_t length);
unsigned decode_bit(Decoder *decoder, BitModel *model);

/* True when the code ended too early: bits were decoded from bytes beyond its end. */
bool decoder_ran_out(const Decoder *decoder);

/* True when the whole code has been used, as it has after the last bit of an intact one. */
bool decoder_at_end(const Decoder *decoder);

#endif
