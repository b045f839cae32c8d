/* phases ORDER: works through a list of phases, a line each: its name and how much of it. Prints what came out. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "phases.h"

enum { EXIT_GOOD = 0, EXIT_SYSTEM = 1, EXIT_USAGE = 2, EXIT_WRONG = 3, AMOUNT_MOST = 100000 };

typedef struct {
    Chase chase;
    Stream stream;
    uint32_t random;
} Work;

static bool carry_out(Work *work, const char *name, uint32_t amount, uint32_t *result)
{
    if (strcmp(name, "chase") == 0)
        *result += chase(&work->chase, amount);
    else if (strcmp(name, "compute") == 0)
        *result += compute(*result, amount);
    else if (strcmp(name, "sort") == 0)
        *result += sort(&work->random, amount);
    else if (strcmp(name, "stream") == 0)
        *result += stream(&work->stream, amount);
    else
        return false;
    return true;
}

static int work_through(Work *work, FILE *order, const char *path)
{
    char line[64];
    uint32_t result = 0;
    for (unsigned number = 1; fgets(line, sizeof line, order); number++) {
        char name[16];
        uint32_t amount;
        char rest;
        if (sscanf(line, "%15s %" SCNu32 " %c", name, &amount, &rest) != 2 || amount > AMOUNT_MOST ||
            !carry_out(work, name, amount, &result)) {
            fprintf(stderr, "phases: %s:%u: give chase, compute, sort or stream and an amount up to %d\n", path, number,
                    AMOUNT_MOST);
            return EXIT_WRONG;
        }
    }
    if (ferror(order)) {
        fprintf(stderr, "phases: %s: %s\n", path, strerror(errno));
        return EXIT_SYSTEM;
    }
    return printf("%" PRIu32 "\n", result) < 0 || fflush(stdout) != 0 ? EXIT_SYSTEM : EXIT_GOOD;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: phases ORDER   work through a list of phases\n", stderr);
        return EXIT_USAGE;
    }
    FILE *order = fopen(argv[1], "r");
    if (!order) {
        fprintf(stderr, "phases: %s: %s\n", argv[1], strerror(errno));
        return EXIT_SYSTEM;
    }
    static char buffer[1 << 16]; /* so that a run makes few system calls */
    setvbuf(order, buffer, _IOFBF, sizeof buffer);
    Work work = {.random = 1};
    int code = EXIT_SYSTEM;
    if (chase_open(&work.chase) && stream_open(&work.stream))
        code = work_through(&work, order, argv[1]);
    else
        fputs("phases: not enough memory\n", stderr);
    chase_close(&work.chase);
    stream_close(&work.stream);
    fclose(order);
    return code;
}
