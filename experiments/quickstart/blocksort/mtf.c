#include "mtf.h"

#include <string.h>

static void start_list(uint8_t list[256])
{
    for (unsigned i = 0; i < 256; i++)
        list[i] = (uint8_t)i;
}

/* Find `byte` in the list and move it to the front. Returns the place where it was. */
static unsigned move_to_front(uint8_t list[256], uint8_t byte)
{
    unsigned place = 0;
    uint8_t shifted = list[0];
    while (shifted != byte) {
        place++;
        uint8_t next = list[place];
        list[place] = shifted;
        shifted = next;
    }
    list[0] = byte;
    return place;
}

static uint32_t put_run(uint32_t run, uint16_t *out)
{
    uint32_t written = 0;
    for (; run > 0; run = (run - 1) / 2)
        out[written++] = run % 2 == 1 ? MTF_RUN_A : MTF_RUN_B;
    return written;
}

uint32_t mtf_encode(const uint8_t *in, uint32_t n, uint16_t *out, Progress *progress)
{
    uint8_t list[256];
    start_list(list);
    uint32_t written = 0;
    uint32_t zeros = 0;
    for (uint32_t i = 0; i < n; i++) {
        if ((i + 1) % PROGRESS_BATCH == 0)
            progress_advance(progress, PROGRESS_BATCH);
        if (in[i] == list[0]) {
            zeros++;
            continue;
        }
        written += put_run(zeros, out + written);
        zeros = 0;
        out[written++] = (uint16_t)(move_to_front(list, in[i]) + 1);
    }
    progress_advance(progress, n % PROGRESS_BATCH);
    written += put_run(zeros, out + written);
    out[written++] = MTF_END;
    return written;
}

bool mtf_decode(const uint16_t *in, uint8_t *out, uint32_t out_n)
{
    uint8_t list[256];
    start_list(list);
    uint32_t written = 0;
    uint64_t digit = 1; /* what digit 1 is worth in the run that is being read */
    for (; *in != MTF_END; in++) {
        if (*in == MTF_RUN_A || *in == MTF_RUN_B) {
            uint64_t run = digit << (*in == MTF_RUN_B);
            if (run > out_n - written)
                return false;
            memset(out + written, list[0], (size_t)run);
            written += (uint32_t)run;
            digit *= 2;
            continue;
        }
        if (written == out_n)
            return false;
        unsigned place = *in - 1u;
        uint8_t byte = list[place];
        memmove(list + 1, list, place);
        list[0] = byte;
        out[written++] = byte;
        digit = 1;
    }
    return written == out_n;
}
