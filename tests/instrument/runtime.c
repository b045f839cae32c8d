/* A runtime for tests: at exit it writes the sum of each metric's counters and of the program's own gauges, one line a
 * metric, to the file named by COUNTS_FILE. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METRICS 8192

struct unperturbed_table {
    struct unperturbed_table *next;
    uint64_t *counts;
    const uint32_t *metric;
    uint32_t sites;
    uint32_t version;
};

struct unperturbed_gauge {
    const volatile void *address;
    uint32_t metric;
    uint16_t bytes;
    uint16_t is_signed;
};

extern struct unperturbed_gauge __start_unperturbed_gauges[] __attribute__((weak, visibility("hidden")));
extern struct unperturbed_gauge __stop_unperturbed_gauges[] __attribute__((weak, visibility("hidden")));

static struct unperturbed_table *tables;

void unperturbed_register(struct unperturbed_table *table)
{
    table->next = tables;
    tables = table;
}

static int64_t value_of(const struct unperturbed_gauge *gauge)
{
    switch (gauge->bytes) {
    case 1: {
        int8_t raw;
        memcpy(&raw, (const void *)gauge->address, 1);
        return gauge->is_signed ? (int64_t)raw : (int64_t)(uint8_t)raw;
    }
    case 2: {
        int16_t raw;
        memcpy(&raw, (const void *)gauge->address, 2);
        return gauge->is_signed ? (int64_t)raw : (int64_t)(uint16_t)raw;
    }
    case 4: {
        int32_t raw;
        memcpy(&raw, (const void *)gauge->address, 4);
        return gauge->is_signed ? (int64_t)raw : (int64_t)(uint32_t)raw;
    }
    case 8: {
        int64_t raw;
        memcpy(&raw, (const void *)gauge->address, 8);
        return raw;
    }
    default:
        abort();
    }
}

/* A variable that several translation units define together has an entry in each. */
static int is_first(const struct unperturbed_gauge *gauge)
{
    for (const struct unperturbed_gauge *other = __start_unperturbed_gauges; other < gauge; other++)
        if (other->address == gauge->address && other->metric == gauge->metric)
            return 0;
    return 1;
}

__attribute__((destructor)) static void report(void)
{
    static uint64_t sums[METRICS];
    const char *path = getenv("COUNTS_FILE");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file)
        return;
    for (struct unperturbed_table *table = tables; table; table = table->next) {
        if (table->version != 1 && table->version != 2) /* 2: of each thread; here those of the main thread */
            abort();
        for (uint32_t site = 0; site < table->sites; site++)
            sums[table->metric[site]] += table->counts[site];
    }
    for (const struct unperturbed_gauge *gauge = __start_unperturbed_gauges; gauge < __stop_unperturbed_gauges; gauge++)
        if (is_first(gauge))
            sums[gauge->metric] += (uint64_t)value_of(gauge);
    for (int metric = 0; metric < METRICS; metric++)
        fprintf(file, "%" PRId64 "\n", (int64_t)sums[metric]);
    fclose(file);
}
