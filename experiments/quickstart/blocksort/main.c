/* blocksort: a small block-sorting compressor. See container.h for its file format. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "container.h"

/* Large, so that a run makes few system calls. */
static char in_buffer[1 << 20];
static char out_buffer[1 << 20];

enum { EXIT_GOOD = 0, EXIT_SYSTEM = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3 };

static const char usage[] = "usage: blocksort -c [-b BLOCK_KB] [-v] FILE   compress FILE to standard output\n"
                            "       blocksort -d FILE                    decompress FILE to standard output\n";

typedef struct {
    bool compress;
    bool verbose;
    uint32_t block_kb;
    const char *path;
} Options;

static bool parse_block_kb(const char *text, uint32_t *block_kb)
{
    char *end;
    errno = 0;
    long kb = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || kb < BLOCK_KB_LEAST || kb > BLOCK_KB_MOST)
        return false;
    *block_kb = (uint32_t)kb;
    return true;
}

/* NULL when the options are right, else what is wrong with them. */
static const char *parse_options(int argc, char **argv, Options *options)
{
    *options = (Options){.block_kb = BLOCK_KB_DEFAULT};
    bool decompress = false;
    bool sized = false;
    opterr = 0;
    for (int option; (option = getopt(argc, argv, "cdvb:")) != -1;) {
        switch (option) {
        case 'c':
            options->compress = true;
            break;
        case 'd':
            decompress = true;
            break;
        case 'v':
            options->verbose = true;
            break;
        case 'b':
            sized = true;
            if (!parse_block_kb(optarg, &options->block_kb))
                return "-b takes a number of KiB from 1 to 4096";
            break;
        default:
            return "unknown option, or one that lacks its value";
        }
    }
    if (options->compress == decompress)
        return "give either -c or -d";
    if (decompress && (sized || options->verbose))
        return "-b and -v go with -c only";
    if (optind != argc - 1)
        return "give exactly one file";
    options->path = argv[optind];
    return NULL;
}

static int fail(const char *what, const char *why, int exit_code)
{
    fprintf(stderr, "blocksort: %s: %s\n", what, why);
    return exit_code;
}

static int report(Status status, const char *path, int error)
{
    switch (status) {
    case STATUS_OK:
        return EXIT_GOOD;
    case STATUS_READ:
        return fail(path, strerror(error), EXIT_SYSTEM);
    case STATUS_WRITE:
        return fail("standard output", strerror(error), EXIT_SYSTEM);
    case STATUS_MEMORY:
        return fail(path, "not enough memory; try a smaller block", EXIT_SYSTEM);
    case STATUS_FORMAT:
        return fail(path, "not a blocksort file", EXIT_DAMAGED);
    case STATUS_CORRUPT:
        return fail(path, "damaged: it cannot be decompressed", EXIT_DAMAGED);
    }
    abort();
}

int main(int argc, char **argv)
{
    Options options;
    const char *wrong = parse_options(argc, argv, &options);
    if (wrong) {
        fprintf(stderr, "blocksort: %s\n%s", wrong, usage);
        return EXIT_USAGE;
    }
    FILE *in = fopen(options.path, "rb");
    if (!in)
        return fail(options.path, strerror(errno), EXIT_SYSTEM);
    setvbuf(in, in_buffer, _IOFBF, sizeof in_buffer);
    setvbuf(stdout, out_buffer, _IOFBF, sizeof out_buffer);
    Progress progress = {.dots = options.verbose ? stderr : NULL};
    Status status =
        options.compress ? compress_stream(in, stdout, options.block_kb, &progress) : decompress_stream(in, stdout);
    if (status == STATUS_OK && fflush(stdout) != 0)
        status = STATUS_WRITE;
    int error = errno;
    fclose(in);
    if (options.verbose)
        fprintf(stderr, "\n%u steps of %d units of work\n", (unsigned)progress.steps, PROGRESS_STEP);
    return report(status, options.path, error);
}
