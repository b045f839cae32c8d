#include "runlength.h"

#include <string.h>

enum { RUN_START = 4, RUN_MORE = 255 };

uint32_t runlength_encode(const uint8_t *in, uint32_t n, uint8_t *out)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < n;) {
        uint8_t byte = in[i];
        uint32_t run = 1;
        while (i + run < n && in[i + run] == byte && run < RUN_START + RUN_MORE)
            run++;
        for (uint32_t k = 0; k < run && k < RUN_START; k++)
            out[written++] = byte;
        if (run >= RUN_START)
            out[written++] = (uint8_t)(run - RUN_START);
        i += run;
    }
    return written;
}

bool runlength_decode(const uint8_t *in, uint32_t n, uint8_t *out, uint32_t out_n)
{
    uint32_t written = 0;
    uint32_t equal = 0; /* length of the run that ends at the last byte */
    for (uint32_t i = 0; i < n; i++) {
        if (equal == RUN_START) {
            uint32_t more = in[i];
            if (more > out_n - written)
                return false;
            memset(out + written, in[i - 1], more);
            written += more;
            equal = 0;
            continue;
        }
        if (written == out_n)
            return false;
        equal = equal > 0 && in[i] == in[i - 1] ? equal + 1 : 1;
        out[written++] = in[i];
    }
    return written == out_n && equal != RUN_START;
}
