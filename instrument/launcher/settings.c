/* The files that the Python code writes for the launcher: its configuration, and the compiler's own folders.
 *
 * Both consist of fields of a letter and a value, each ended by a NUL.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

static const struct {
    char letter;
    size_t list;
} LISTS[] = {
    {'C', offsetof(struct configuration, compiler)},          {'P', offsetof(struct configuration, python)},
    {'S', offsetof(struct configuration, separate)},          {'Q', offsetof(struct configuration, questions)},
    {'M', offsetof(struct configuration, compiling)},         {'A', offsetof(struct configuration, harmless)},
    {'X', offsetof(struct configuration, exceptions)},        {'G', offsetof(struct configuration, folder_flags)},
    {'E', offsetof(struct configuration, endings)},           {'t', offsetof(struct configuration, trailers)},
    {'b', offsetof(struct configuration, before_expression)}, {'y', offsetof(struct configuration, declaring)},
};

/* Read a field of the last need; false if the field does not belong to a need. */
static bool read_need(struct configuration *configuration, const char *field)
{
    if (*field == 'N') {
        APPEND(&configuration->needs, (struct need){.use = 0});
        return true;
    }
    if (configuration->needs.count == 0)
        return false;
    struct need *need = &configuration->needs.items[configuration->needs.count - 1];
    switch (*field) {
    case 'w':
        APPEND(&need->words, field + 1);
        return true;
    case 'F':
    case 'f':
        APPEND(&need->files, field);
        return true;
    case 'd':
    case 'c':
    case 'r':
        need->use = *field, need->used = field + 1;
        return true;
    default:
        return false;
    }
}

static bool read_field(struct configuration *configuration, const char *field)
{
    for (size_t index = 0; index < sizeof LISTS / sizeof *LISTS; index++)
        if (LISTS[index].letter == *field) {
            APPEND((words_t *)((char *)configuration + LISTS[index].list), field + 1);
            return true;
        }
    switch (*field) {
    case 'L':
        configuration->log = field + 1;
        return true;
    case 'O':
        configuration->folders = field + 1;
        return true;
    case 'R':
        configuration->links = true;
        return true;
    case 'H':
        configuration->launched = true;
        return true;
    default:
        return read_need(configuration, field);
    }
}

void read_configuration(const char *path, struct configuration *configuration)
{
    size_t size;
    const char *at = content(path, &size), *field;
    if (at == NULL)
        fail(path, "cannot read the toolchain's configuration; write the toolchain again");
    for (const char *end = at + size; (field = next_field(&at, end)) != NULL;)
        if (!read_field(configuration, field))
            fail(path, "written by another version; write the toolchain again");
    if (!configuration->compiler.count || !configuration->python.count || !configuration->log ||
        !configuration->folders)
        fail(path, "not a configuration of the launcher; write the toolchain again");
}

static uint64_t mixed(uint64_t hash, const char *text)
{
    for (const char *at = text;; at++) {
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
        if (*at == 0)
            return hash;
    }
}

/* Read the compiler's own folders as Python recorded them; false if there is no record, or the compiler has changed
 * since. */
bool read_folders(const struct configuration *configuration, const struct command *command, enum language language,
                  const char *name, const char *program, struct folders *folders)
{
    uint64_t hash = mixed(0xcbf29ce484222325, name);
    for (size_t index = 0; index < command->folder_flags.count; index++)
        hash = mixed(hash, command->folder_flags.items[index]);
    char path[PATH_MAX], stamp[64];
    struct stat status;
    if (program == NULL || stat(program, &status) != 0)
        return false;
    long long changed = status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec;
    snprintf(stamp, sizeof stamp, "%lld %lld", changed, (long long)status.st_size);
    int length = snprintf(path, sizeof path, "%s-%s-%016llx", configuration->folders,
                          language == LANGUAGE_CXX ? "c++" : "c", (unsigned long long)hash);
    size_t size, flags = 0;
    const char *at = length < (int)sizeof path ? content(path, &size) : NULL, *field;
    bool right = false, usable = true;
    for (const char *end = at ? at + size : NULL; at && (field = next_field(&at, end)) != NULL;) {
        switch (*field) {
        case 'T':
            right = strcmp(field + 1, stamp) == 0;
            break;
        case 'K':
            usable &= flags < command->folder_flags.count && strcmp(command->folder_flags.items[flags], field + 1) == 0;
            flags++;
            break;
        case 'd':
            APPEND(&folders->system, field + 1);
            break;
        case 'D':
            APPEND(&folders->definitions, field + 1);
            break;
        default:
            usable = false;
        }
    }
    folders->index = joined(path, strlen(path), "-headers", strlen("-headers"));
    return right && usable && flags == command->folder_flags.count;
}
