#include <stdlib.h>
#include <string.h>

#include "bwt.h"
#include "container.h"
#include "crc32.h"
#include "mtf.h"
#include "runlength.h"
#include "symbols.h"

/* What a block was, stage by stage backwards. */
typedef struct {
    uint32_t block; /* most bytes of a block */
    uint8_t *code;
    uint16_t *symbols;
    uint8_t *transformed;
    uint32_t *previous; /* scratch of the inverse transform */
    uint8_t *text;
    uint8_t *raw;
    uint32_t checksum; /* of the headers read so far */
} Decompressor;

static void decompressor_close(Decompressor *d)
{
    free(d->code);
    free(d->symbols);
    free(d->transformed);
    free(d->previous);
    free(d->text);
    free(d->raw);
}

static Status decompressor_open(Decompressor *d, uint32_t block)
{
    size_t bound = runlength_bound(block);
    *d = (Decompressor){
        .block = block,
        .code = malloc(block),
        .symbols = malloc((bound + 1) * sizeof *d->symbols),
        .transformed = malloc(bound),
        .previous = malloc((bound + 1) * sizeof *d->previous),
        .text = malloc(bound),
        .raw = malloc(block),
    };
    if (d->code && d->symbols && d->transformed && d->previous && d->text && d->raw)
        return STATUS_OK;
    decompressor_close(d);
    return STATUS_MEMORY;
}

/* Read exactly `n` bytes. An early end of the file is damage, not a failure to read. */
static Status read_bytes(FILE *in, uint8_t *bytes, size_t n)
{
    if (fread(bytes, 1, n, in) == n)
        return STATUS_OK;
    return ferror(in) ? STATUS_READ : STATUS_CORRUPT;
}

/* Undo all stages of a block of `raw_n` bytes, into `d->raw`. `n` is its size after the run-length stage. */
static bool decode_block(Decompressor *d, uint32_t raw_n, uint32_t n, uint32_t primary, uint32_t code_n)
{
    if (primary == 0) {
        memcpy(d->raw, d->code, raw_n);
        return code_n == raw_n;
    }
    Decoder decoder = decoder_start(d->code, code_n);
    return symbols_decode(&decoder, d->symbols, n + 1) && mtf_decode(d->symbols, d->transformed, n) &&
           bwt_inverse(d->transformed, n, primary, d->text, d->previous) && runlength_decode(d->text, n, d->raw, raw_n);
}

/* Read and undo the block whose `header` has been read. */
static Status decompress_block(Decompressor *d, const uint8_t header[BLOCK_HEADER], FILE *in, FILE *out)
{
    uint32_t raw_n = get_number(header);
    uint32_t checksum = get_number(header + NUMBER);
    uint32_t n = get_number(header + 2 * NUMBER);
    uint32_t primary = get_number(header + 3 * NUMBER);
    uint32_t code_n = get_number(header + 4 * NUMBER);
    if (raw_n > d->block || n > runlength_bound(raw_n) || code_n > raw_n)
        return STATUS_CORRUPT;
    Status status = read_bytes(in, d->code, code_n);
    if (status != STATUS_OK)
        return status;
    if (!decode_block(d, raw_n, n, primary, code_n) || crc32_update(0, d->raw, raw_n) != checksum)
        return STATUS_CORRUPT;
    return fwrite(d->raw, 1, raw_n, out) == raw_n ? STATUS_OK : STATUS_WRITE;
}

static Status decompress_blocks(Decompressor *d, FILE *in, FILE *out)
{
    uint8_t header[BLOCK_HEADER];
    for (;;) {
        Status status = read_bytes(in, header, NUMBER);
        if (status != STATUS_OK)
            return status;
        if (get_number(header) == 0)
            break;
        status = read_bytes(in, header + NUMBER, BLOCK_HEADER - NUMBER);
        if (status == STATUS_OK)
            status = decompress_block(d, header, in, out);
        if (status != STATUS_OK)
            return status;
        d->checksum = crc32_update(d->checksum, header, BLOCK_HEADER);
    }
    uint8_t checksum[NUMBER];
    Status status = read_bytes(in, checksum, sizeof checksum);
    if (status != STATUS_OK)
        return status;
    bool ends_here = fgetc(in) == EOF;
    if (ferror(in))
        return STATUS_READ;
    return ends_here && get_number(checksum) == d->checksum ? STATUS_OK : STATUS_CORRUPT;
}

Status decompress_stream(FILE *in, FILE *out)
{
    uint8_t header[FILE_HEADER];
    Status status = read_bytes(in, header, sizeof header);
    if (status == STATUS_READ)
        return status;
    if (status != STATUS_OK || memcmp(header, container_magic, sizeof container_magic) != 0)
        return STATUS_FORMAT;
    uint32_t block = get_number(header + NUMBER);
    if (block % 1024 != 0 || block < BLOCK_KB_LEAST * 1024 || block > BLOCK_KB_MOST * 1024)
        return STATUS_CORRUPT;
    Decompressor decompressor;
    status = decompressor_open(&decompressor, block);
    if (status != STATUS_OK)
        return status;
    decompressor.checksum = crc32_update(0, header, sizeof header);
    status = decompress_blocks(&decompressor, in, out);
    decompressor_close(&decompressor);
    return status;
}
