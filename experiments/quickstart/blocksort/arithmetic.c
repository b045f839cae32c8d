#include "arithmetic.h"

enum { QUICK = 4, SLOW = 7, END_BYTES = 4 };

/* Last number of the interval's share for a 1. Both shares have one number at least, for probabilities are below
 * 2^16. */
static uint32_t split(uint32_t low, uint32_t high, const BitModel *model)
{
    uint32_t probability = ((uint32_t)model->quick + model->slow) / 2;
    return low + (uint32_t)((uint64_t)(high - low) * probability >> 16);
}

static void adapt(BitModel *model, unsigned bit)
{
    if (bit) {
        model->quick += (UINT16_MAX - model->quick) >> QUICK;
        model->slow += (UINT16_MAX - model->slow) >> SLOW;
    } else {
        model->quick -= model->quick >> QUICK;
        model->slow -= model->slow >> SLOW;
    }
}

static bool first_bytes_agree(uint32_t low, uint32_t high) { return ((low ^ high) >> 24) == 0; }

Encoder encoder_start(uint8_t *bytes, size_t capacity)
{
    return (Encoder){.high = UINT32_MAX, .bytes = bytes, .capacity = capacity};
}

static void put_byte(Encoder *encoder, uint8_t byte)
{
    if (encoder->length == encoder->capacity)
        encoder->overflow = true;
    else
        encoder->bytes[encoder->length++] = byte;
}

void encode_bit(Encoder *encoder, BitModel *model, unsigned bit)
{
    uint32_t middle = split(encoder->low, encoder->high, model);
    if (bit)
        encoder->high = middle;
    else
        encoder->low = middle + 1;
    adapt(model, bit);
    while (first_bytes_agree(encoder->low, encoder->high)) {
        put_byte(encoder, (uint8_t)(encoder->low >> 24));
        encoder->low <<= 8;
        encoder->high = encoder->high << 8 | 0xff;
    }
}

void encoder_finish(Encoder *encoder)
{
    for (unsigned i = 0; i < END_BYTES; i++)
        put_byte(encoder, (uint8_t)(encoder->low >> (24 - 8 * i)));
}

static void take_byte(Decoder *decoder)
{
    uint8_t byte = decoder->next < decoder->length ? decoder->bytes[decoder->next] : 0;
    decoder->next++;
    decoder->value = decoder->value << 8 | byte;
}

Decoder decoder_start(const uint8_t *bytes, size_t length)
{
    Decoder decoder = {.high = UINT32_MAX, .bytes = bytes, .length = length};
    for (unsigned i = 0; i < END_BYTES; i++)
        take_byte(&decoder);
    return decoder;
}

unsigned decode_bit(Decoder *decoder, BitModel *model)
{
    uint32_t middle = split(decoder->low, decoder->high, model);
    unsigned bit = decoder->value <= middle;
    if (bit)
        decoder->high = middle;
    else
        decoder->low = middle + 1;
    adapt(model, bit);
    while (first_bytes_agree(decoder->low, decoder->high)) {
        take_byte(decoder);
        decoder->low <<= 8;
        decoder->high = decoder->high << 8 | 0xff;
    }
    return bit;
}

bool decoder_ran_out(const Decoder *decoder) { return decoder->next > decoder->length; }

bool decoder_at_end(const Decoder *decoder) { return decoder->next == decoder->length; }
