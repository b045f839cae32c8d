#include "bwt.h"

uint32_t bwt_forward(SuffixSorter *sorter, const uint8_t *text, uint32_t n, uint8_t *out, Progress *progress)
{
    suffixsort(sorter, text, n, progress);
    uint32_t primary = 0;
    uint32_t written = 0;
    out[written++] = text[n - 1]; /* row 0, the empty suffix */
    for (uint32_t i = 0; i < n; i++) {
        uint32_t start = sorter->suffix[i];
        if (start == 0)
            primary = i + 1; /* nothing stands before the whole text: the one row without a byte */
        else
            out[written++] = text[start - 1];
    }
    return primary;
}

bool bwt_inverse(const uint8_t *in, uint32_t n, uint32_t primary, uint8_t *text, uint32_t *previous)
{
    if (primary == 0 || primary > n)
        return false;
    uint32_t row_of[256] = {0}; /* first row whose suffix begins with the byte */
    for (uint32_t i = 0; i < n; i++)
        row_of[in[i]]++;
    uint32_t sum = 1;
    for (unsigned byte = 0; byte < 256; byte++) {
        uint32_t count = row_of[byte];
        row_of[byte] = sum;
        sum += count;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row = i < primary ? i : i + 1;
        previous[row] = row_of[in[i]]++;
    }
    previous[primary] = 0;
    uint32_t row = 0;
    for (uint32_t left = n; left > 0; left--) {
        if (row == primary)
            return false; /* the text begins too early: damaged */
        text[left - 1] = in[row < primary ? row : row - 1];
        row = previous[row];
    }
    return row == primary;
}
