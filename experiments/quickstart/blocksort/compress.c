#include <stdlib.h>
#include <string.h>

#include "bwt.h"
#include "container.h"
#include "crc32.h"
#include "mtf.h"
#include "runlength.h"
#include "symbols.h"

const uint8_t container_magic[4] = {'B', 'S', 'C', '1'};

/* What a block becomes, stage by stage. */
typedef struct {
    uint8_t *raw;
    uint8_t *text;        /* after the run-length stage, with padding */
    uint8_t *transformed; /* after the Burrows-Wheeler transform */
    uint16_t *symbols;    /* after move-to-front coding */
    uint8_t *code;        /* at most as many bytes as the block */
    SuffixSorter sorter;
    uint32_t checksum; /* of the headers written so far */
} Compressor;

static void compressor_close(Compressor *c)
{
    free(c->raw);
    free(c->text);
    free(c->transformed);
    free(c->symbols);
    free(c->code);
    suffixsort_close(&c->sorter);
}

static Status compressor_open(Compressor *c, uint32_t block)
{
    uint32_t bound = runlength_bound(block);
    *c = (Compressor){
        .raw = malloc(block),
        .text = malloc((size_t)bound + SORT_PADDING),
        .transformed = malloc(bound),
        .symbols = malloc(((size_t)bound + 1) * sizeof *c->symbols),
        .code = malloc(block),
    };
    Status status = suffixsort_open(&c->sorter, bound);
    if (status == STATUS_OK && c->raw && c->text && c->transformed && c->symbols && c->code)
        return STATUS_OK;
    compressor_close(c);
    return STATUS_MEMORY;
}

static Status write_bytes(FILE *out, const uint8_t *bytes, size_t n)
{
    return fwrite(bytes, 1, n, out) == n ? STATUS_OK : STATUS_WRITE;
}

static Status write_block(Compressor *c, const uint32_t numbers[5], const uint8_t *code, FILE *out)
{
    uint8_t header[BLOCK_HEADER];
    for (unsigned i = 0; i < 5; i++)
        put_number(header + NUMBER * i, numbers[i]);
    c->checksum = crc32_update(c->checksum, header, sizeof header);
    Status status = write_bytes(out, header, sizeof header);
    return status == STATUS_OK ? write_bytes(out, code, numbers[4]) : status;
}

static Status compress_block(Compressor *c, uint32_t raw_n, FILE *out, Progress *progress)
{
    uint32_t checksum = crc32_update(0, c->raw, raw_n);
    uint32_t n = runlength_encode(c->raw, raw_n, c->text);
    memset(c->text + n, 0, SORT_PADDING);
    uint32_t primary = bwt_forward(&c->sorter, c->text, n, c->transformed, progress);
    uint32_t symbols = mtf_encode(c->transformed, n, c->symbols, progress);
    Encoder encoder = encoder_start(c->code, raw_n);
    symbols_encode(c->symbols, symbols, &encoder, progress);
    encoder_finish(&encoder);
    if (encoder.overflow)
        return write_block(c, (uint32_t[]){raw_n, checksum, n, 0, raw_n}, c->raw, out);
    return write_block(c, (uint32_t[]){raw_n, checksum, n, primary, (uint32_t)encoder.length}, c->code, out);
}

static Status compress_blocks(Compressor *c, uint32_t block, FILE *in, FILE *out, Progress *progress)
{
    uint8_t header[FILE_HEADER];
    memcpy(header, container_magic, sizeof container_magic);
    put_number(header + NUMBER, block);
    c->checksum = crc32_update(0, header, sizeof header);
    Status status = write_bytes(out, header, sizeof header);
    for (size_t n; status == STATUS_OK && (n = fread(c->raw, 1, block, in)) > 0;)
        status = compress_block(c, (uint32_t)n, out, progress);
    if (status != STATUS_OK)
        return status;
    if (ferror(in))
        return STATUS_READ;
    uint8_t end[2 * NUMBER];
    put_number(end, 0);
    put_number(end + NUMBER, c->checksum);
    return write_bytes(out, end, sizeof end);
}

Status compress_stream(FILE *in, FILE *out, uint32_t block_kb, Progress *progress)
{
    uint32_t block = block_kb * 1024;
    Compressor compressor;
    Status status = compressor_open(&compressor, block);
    if (status != STATUS_OK)
        return status;
    status = compress_blocks(&compressor, block, in, out, progress);
    compressor_close(&compressor);
    return status;
}
