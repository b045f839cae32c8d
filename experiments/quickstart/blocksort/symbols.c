#include "symbols.h"

#include "mtf.h"

enum { CLASSES = 9, HIGHEST_CLASS = CLASSES - 1, DIGIT_NODES = 1 << CLASSES };

/* The decisions of one symbol. */
typedef struct {
    BitModel higher[HIGHEST_CLASS]; /* at index c: is the class higher than c? */
    BitModel digit[DIGIT_NODES];    /* at the number that the digits so far make: is the next one 1? */
} SymbolModel;

static void start_models(SymbolModel after[CLASSES])
{
    for (unsigned c = 0; c < CLASSES; c++) {
        for (unsigned i = 0; i < HIGHEST_CLASS; i++)
            after[c].higher[i] = bit_model_start;
        for (unsigned i = 0; i < DIGIT_NODES; i++)
            after[c].digit[i] = bit_model_start;
    }
}

static unsigned class_of(unsigned symbol)
{
    unsigned class = 0;
    while ((symbol + 1) >> class > 1)
        class++;
    return class;
}

static void encode_symbol(Encoder *encoder, SymbolModel *model, unsigned symbol, unsigned class)
{
    for (unsigned c = 0; c < class; c++)
        encode_bit(encoder, &model->higher[c], 1);
    if (class < HIGHEST_CLASS)
        encode_bit(encoder, &model->higher[class], 0);
    unsigned number = 1;
    for (unsigned left = class; left-- > 0;) {
        unsigned digit = (symbol + 1) >> left & 1;
        encode_bit(encoder, &model->digit[number], digit);
        number = number << 1 | digit;
    }
}

static unsigned decode_symbol(Decoder *decoder, SymbolModel *model)
{
    unsigned class = 0;
    while (class < HIGHEST_CLASS && decode_bit(decoder, &model->higher[class]))
        class++;
    unsigned number = 1;
    for (unsigned left = class; left-- > 0;)
        number = number << 1 | decode_bit(decoder, &model->digit[number]);
    return number - 1;
}

void symbols_encode(const uint16_t *symbols, uint32_t n, Encoder *encoder, Progress *progress)
{
    SymbolModel after[CLASSES];
    start_models(after);
    unsigned class = 0;
    for (uint32_t i = 0; i < n; i++) {
        SymbolModel *model = &after[class];
        class = class_of(symbols[i]);
        encode_symbol(encoder, model, symbols[i], class);
        if ((i + 1) % PROGRESS_BATCH == 0)
            progress_advance(progress, PROGRESS_BATCH);
    }
    progress_advance(progress, n % PROGRESS_BATCH);
}

bool symbols_decode(Decoder *decoder, uint16_t *symbols, uint32_t capacity)
{
    SymbolModel after[CLASSES];
    start_models(after);
    unsigned class = 0;
    for (uint32_t i = 0; i < capacity; i++) {
        unsigned symbol = decode_symbol(decoder, &after[class]);
        if (symbol > MTF_END || decoder_ran_out(decoder))
            return false;
        symbols[i] = (uint16_t)symbol;
        if (symbol == MTF_END)
            return decoder_at_end(decoder);
        class = class_of(symbol);
    }
    return false;
}
