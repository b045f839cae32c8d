#include "crc32.h"

/* Remainders of all four-bit values: sixteen words that stay in one cache line, for two steps a byte. */
static const uint32_t remainder_of[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        crc = remainder_of[crc & 15] ^ (crc >> 4);
        crc = remainder_of[crc & 15] ^ (crc >> 4);
    }
    return ~crc;
}
