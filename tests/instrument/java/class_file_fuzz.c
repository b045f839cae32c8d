/* Inserts counters into damaged class files, under the sanitisers: argv are class files. */
#include "class_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGEST (1 << 20)
static uint64_t counter;

static uint64_t *count_all(const char *name, size_t length, void *data)
{
    (void)name, (void)length, (void)data;
    return &counter;
}

int main(int files, char **file)
{
    static uint8_t whole[LARGEST];
    long rewritten = 0, refused = 0;
    const struct unperturbed_counting how = {"java/lang/UnperturbedCounts", "plain", count_all, NULL};
    srand(1);
    for (int number = 1; number < files; number++) {
        FILE *from = fopen(file[number], "rb");
        size_t bytes = from ? fread(whole, 1, sizeof whole, from) : 0;
        if (from)
            fclose(from);
        for (int trial = 0; trial < 5000; trial++) {
            size_t kept = trial % 3 ? bytes : (size_t)rand() % (bytes + 1), length;
            uint8_t *damaged = malloc(kept ? kept : 1), *made; /* the sanitiser sees each byte behind it */
            memcpy(damaged, whole, kept);
            for (int change = kept ? rand() % 4 : 0; change > 0; change--)
                damaged[(size_t)rand() % kept] = (uint8_t)rand();
            if (unperturbed_count_methods(damaged, kept, &how, &made, &length) > 0) {
                rewritten++;
                free(made);
            } else {
                refused++;
            }
            free(damaged);
        }
    }
    printf("%ld %ld\n", rewritten, refused);
    return 0;
}
