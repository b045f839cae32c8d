/* Fuzzes the record file from the side of the measured program: whatever file is named, it is mapped within its bounds or
 * refused; records are taken, written and committed as the sampler does it. */
#define _GNU_SOURCE
#include "runtime.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[64], entry[96];
    if (file < 0) {
        file = memfd_create("record", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        snprintf(entry, sizeof entry, UNPERTURBED_ENVIRONMENT "=%s", path);
    }
    /* The last bytes say what is written over the beginning of a file of zeros: most of a file are records. */
    size_t whole = size > 2 ? 64 * (size_t)(data[size - 1] | data[size - 2] << 8) : size;
    size_t given = size > 2 ? size - 2 : size;
    if (ftruncate(file, 0) != 0 || ftruncate(file, (off_t)whole) != 0)
        abort();
    if (pwrite(file, data, given < whole ? given : whole, 0) < 0)
        abort();
    char *environment[] = {"PATH=/bin", entry, NULL};
    if (unperturbed_claim(environment) != 0)
        return 0;
    struct unperturbed_header *header = unperturbed_header;
    for (int turn = 0; turn < 20; turn++) {
        uint64_t position;
        struct unperturbed_record *record = unperturbed_take(header, &position);
        if (!record)
            break;
        record->thread = 1, record->monotonic_ns = turn, record->overruns = 0;
        uint64_t values = (uint64_t)header->events + header->os_values + header->software +
                          (header->options & OPTION_MULTIPLEX ? 2 * (uint64_t)header->events : 0);
        for (uint64_t index = 0; index < values; index++)
            record->value[index] = (int64_t)index;
        unperturbed_commit(record, position);
    }
    unperturbed_mark(MARK_EXEC);
    unperturbed_fail("fuzz");
    munmap(header, whole);
    unperturbed_header = NULL;
    return 0;
}
