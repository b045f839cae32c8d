#include <stdlib.h>

#include "phases.h"

enum { NUMBERS = 1 << 18, STEPS = 10000 }; /* 1 MiB */

bool stream_open(Stream *stream)
{
    stream->at = 0;
    stream->table = calloc(NUMBERS, sizeof *stream->table);
    return stream->table != NULL;
}

void stream_close(Stream *stream) { free(stream->table); }

uint32_t stream(Stream *stream, uint32_t amount)
{
    uint32_t at = stream->at;
    uint32_t sum = 0;
    for (uint32_t steps = amount * STEPS; steps > 0; steps--) {
        sum += stream->table[at] += steps;
        at = (at + 4) % NUMBERS;
    }
    stream->at = at;
    return sum;
}
