/* CRC-32 (ISO 3309, polynomial 0x04c11db7 reflected), as in zip, gzip and PNG. */
#ifndef CRC32_H
#define CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Checksum of the bytes seen so far (0 before the first) continued by `n` more. */
uint32_t crc32_update(uint32_t crc, const uint8_t *bytes, size_t n);

#endif
