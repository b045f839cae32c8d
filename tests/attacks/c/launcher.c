/* Fuzzes the launcher of the instrumenting compiler: its configuration, command lines, notes of folders, and sources.
 *
 * The first byte says which. The launcher gives no memory back and ends by exec; here every input's memory is freed, and
 * `fail` returns to this file. Compiled with the launcher's own files, whose malloc and friends are the ones below.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#undef malloc
#undef calloc
#undef realloc
#include <stdlib.h>

#ifndef SEED
#error "SEED is the file of a real configuration"
#endif

void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void *fuzz_realloc(void *old, size_t size);

static void **kept;
static size_t kept_count, kept_room;
static jmp_buf failed;

static void *keep(void *memory)
{
    if (kept_count == kept_room)
        kept = realloc(kept, (kept_room = 2 * kept_room + 64) * sizeof *kept);
    return kept[kept_count++] = memory;
}

void *fuzz_malloc(size_t size) { return keep(malloc(size)); }
void *fuzz_calloc(size_t count, size_t size) { return keep(calloc(count, size)); }

void *fuzz_realloc(void *old, size_t size)
{
    void *memory = realloc(old, size);
    for (size_t index = kept_count; old && index-- > 0;)
        if (kept[index] == old) {
            kept[index] = memory;
            return memory;
        }
    return keep(memory);
}

_Noreturn void __wrap_fail(const char *what, const char *why);
_Noreturn void __wrap_fail(const char *what, const char *why)
{
    (void)what, (void)why;
    longjmp(failed, 1);
}

static struct configuration usual;
static char folder[64], source[96], header[96], note[96];

static void put(const char *path, const uint8_t *data, size_t size)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    close(file);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    snprintf(folder, sizeof folder, "/dev/shm/launcher-fuzz-%d", (int)getpid());
    mkdir(folder, 0700);
    snprintf(source, sizeof source, "%s/a.c", folder);
    snprintf(header, sizeof header, "%s/two.h", folder);
    snprintf(note, sizeof note, "%s/note", folder);
    if (chdir(folder) != 0)
        abort();
    read_configuration(SEED, &usual);
    kept_count = 0; /* that memory stays */
    return 0;
}

/* The size of the part before a mark between two files. */
static size_t part(const uint8_t *data, size_t size)
{
    const uint8_t *mark = memmem(data, size, "\n//@@\n", 6);
    return mark ? (size_t)(mark - data) : size;
}

static void read_source(const uint8_t *data, size_t size, const struct configuration *configuration, int language)
{
    struct command command = {.output = "a.o"};
    struct source given = {source, (enum language)(language % 3)};
    struct folders folders = {.index = note};
    size_t first = part(data, size), rest = size > first + 6 ? size - first - 6 : 0;
    size_t second = part(data + size - rest, rest), last = rest > second + 6 ? rest - second - 6 : 0;
    put(source, data, first);
    put(header, data + size - rest, second);
    put(note, data + size - last, last);
    APPEND(&command.quote, ".");
    APPEND(&folders.definitions, "__GNUC__=12");
    APPEND(&folders.system, folder);
    cannot_hold_site(configuration, &command, &given, &folders);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[1 << 16], *words[64];
    if (size < 2 || size >= sizeof text)
        return 0;
    if (setjmp(failed) == 0) {
        struct configuration configuration = usual;
        if (data[0] % 4 == 0) {
            configuration = (struct configuration){.links = false};
            put(note, data + 1, size - 1);
            read_configuration(note, &configuration);
            struct command command = {.output = ""};
            static char *plain[] = {"cc", "-O2", "-Iinc", "-c", "a.c", "-o", "a.o", "-DX=1", NULL};
            read_command(&configuration, plain, &command);
        } else if (data[0] % 4 == 1) {
            memcpy(text, data + 1, size - 1);
            text[size - 1] = 0;
            size_t count = 0;
            words[count++] = "cc";
            for (char *at = text; at < text + size && count < 63; at += strlen(at) + 1)
                words[count++] = at;
            words[count] = NULL;
            struct command command = {.output = ""};
            read_command(&configuration, words, &command);
        } else if (data[0] % 4 == 2) {
            read_source(data + 1, size - 1, &configuration, data[0] / 4);
        } else if (data[0] % 4 == 3) {
            struct command command = {.output = ""};
            struct folders folders = {.index = NULL};
            char path[160];
            /* The name's hash is that of "cc" without flags. */
            uint64_t hash = 0xcbf29ce484222325;
            for (const char *at = "cc";; at++) {
                hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
                if (*at == 0)
                    break;
            }
            configuration.folders = note;
            snprintf(path, sizeof path, "%s-c-%016llx", note, (unsigned long long)hash);
            put(path, data + 1, size - 1);
            read_folders(&configuration, &command, LANGUAGE_C, "cc", "/bin/sh", &folders);
        }
    }
    while (kept_count)
        free(kept[--kept_count]);
    return 0;
}
