/* records: an address book in memory, worked on by a list of commands. See session.h for the commands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

enum { EXIT_GOOD = 0, EXIT_SYSTEM = 1, EXIT_USAGE = 2, EXIT_WRONG = 3 };

/* Large, so that a run makes few system calls. */
static char in_buffer[1 << 20];
static char out_buffer[1 << 20];

static int report(SessionStatus status, const char *path, unsigned line)
{
    static const char *const wrong[] = {
        [SESSION_SYNTAX] = "not understood",
        [SESSION_ABSENT] = "there is no such record",
        [SESSION_UNSORTED] = "names are found in a table that is sorted by name",
        [SESSION_MEMORY] = "not enough memory",
    };
    if (status == SESSION_OK)
        return EXIT_GOOD;
    fprintf(stderr, "records: %s:%u: %s\n", path, line, wrong[status]);
    return status == SESSION_MEMORY ? EXIT_SYSTEM : EXIT_WRONG;
}

static FILE *open_file(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fprintf(stderr, "records: %s: %s\n", path, strerror(errno));
    else
        setvbuf(file, in_buffer, _IOFBF, sizeof in_buffer);
    return file;
}

static int load(const char *path, Table *table)
{
    FILE *in = open_file(path);
    if (!in)
        return EXIT_SYSTEM;
    unsigned line;
    SessionStatus status = session_load(in, table, &line);
    fclose(in);
    return report(status, path, line);
}

static int work(const char *path, Table *table)
{
    FILE *in = open_file(path);
    if (!in)
        return EXIT_SYSTEM;
    unsigned line;
    SessionStatus status = session_run(in, table, stdout, &line);
    fclose(in);
    return report(status, path, line);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: records BOOK SESSION   load the address book, carry out the session's commands\n", stderr);
        return EXIT_USAGE;
    }
    setvbuf(stdout, out_buffer, _IOFBF, sizeof out_buffer);
    Table table = {0};
    int code = load(argv[1], &table);
    if (code == EXIT_GOOD)
        code = work(argv[2], &table);
    table_free(&table);
    if (fflush(stdout) != 0) {
        fprintf(stderr, "records: standard output: %s\n", strerror(errno));
        return EXIT_SYSTEM;
    }
    return code;
}
