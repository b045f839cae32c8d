#include "report.h"

#include <inttypes.h>

/* FNV-1a, 64 bits. */
static const uint64_t hash_start = 0xcbf29ce484222325, hash_factor = 0x100000001b3;

void report_listing(const Table *table, FILE *out)
{
    char line[LINE_SIZE];
    uint64_t hash = hash_start;
    int64_t sum = 0;
    for (size_t position = 0; position < table->count; position++) {
        size_t length = record_format(table->order[position], line);
        for (size_t place = 0; place < length; place++)
            hash = (hash ^ (unsigned char)line[place]) * hash_factor;
        sum += table->order[position]->balance;
    }
    fprintf(out, "listing: %zu records, balance %" PRId64 ", checksum %016" PRIx64 "\n", table->count, sum, hash);
}

void report_write(const Table *table, FILE *out)
{
    char line[LINE_SIZE];
    for (size_t position = 0; position < table->count; position++)
        fwrite(line, 1, record_format(table->order[position], line), out);
}

void report_totals(const Table *table, FILE *out)
{
    size_t positive = 0, negative = 0;
    int32_t largest[26] = {0};
    for (size_t position = 0; position < table->count; position++) {
        const Record *record = table->order[position];
        positive += record->balance > 0;
        negative += record->balance < 0;
        unsigned initial = (unsigned)(record->name[0] - 'A');
        if (initial < 26 && record->balance > largest[initial])
            largest[initial] = record->balance;
    }
    fprintf(out, "totals: %zu positive, %zu negative, largest", positive, negative);
    for (int initial = 0; initial < 26; initial++)
        fprintf(out, " %" PRId32, largest[initial]);
    fputc('\n', out);
}
