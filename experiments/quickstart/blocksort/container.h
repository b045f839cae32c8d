/* The file around the blocks. Numbers are little-endian, of 32 bits.
 *
 *     file    "BSC1", block size in bytes, blocks, 0, checksum of the eight bytes before the blocks and of all blocks'
 *             headers
 *     block   bytes of input (never 0), their checksum, bytes after the run-length stage, primary index of the
 *             Burrows-Wheeler transform, bytes of code, code
 *
 * A block whose code would be no shorter than the block is stored as it is, with a primary index of 0.
 */
#ifndef CONTAINER_H
#define CONTAINER_H

#include <stdint.h>
#include <stdio.h>

#include "progress.h"
#include "status.h"

enum { BLOCK_KB_LEAST = 1, BLOCK_KB_DEFAULT = 128, BLOCK_KB_MOST = 4096 };

/* Compress all of `in` to `out`, in blocks of `block_kb` KiB. */
Status compress_stream(FILE *in, FILE *out, uint32_t block_kb, Progress *progress);

/* Undo it. Nothing of a block is written unless its checksum is right. */
Status decompress_stream(FILE *in, FILE *out);

/* ---- Shared by both directions ---- */

enum { NUMBER = 4, FILE_HEADER = 2 * NUMBER, BLOCK_HEADER = 5 * NUMBER };
extern const uint8_t container_magic[4];

static inline void put_number(uint8_t *bytes, uint32_t number)
{
    for (unsigned i = 0; i < NUMBER; i++)
        bytes[i] = (uint8_t)(number >> 8 * i);
}

static inline uint32_t get_number(const uint8_t *bytes)
{
    uint32_t number = 0;
    for (unsigned i = 0; i < NUMBER; i++)
        number |= (uint32_t)bytes[i] << 8 * i;
    return number;
}

#endif
