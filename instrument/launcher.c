/* The launcher's frame: reads its configuration, decides, notes what it passes over, and becomes the compiler or the wrapper. */
#define _GNU_SOURCE
#include "launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { OWN_ERROR = 2 };

/* The toolchain writes the configuration's path into its copies of this program, so that they can be copied, linked and renamed.
 * Behind the path stands a digest of the settings: whoever tells compilers apart by their content must see new settings. */
char launcher_configuration[PATH_MAX + 64] = "@UNPERTURBED-LAUNCHER-CONFIGURATION@";

static void fail(const char *what, const char *why) {
    dprintf(STDERR_FILENO, "unperturbed cc: %s: %s\n", what, why);
    _exit(OWN_ERROR);
}

void *grown(void *items, size_t count, size_t *room, size_t size) {
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : 16;
    items = realloc(items, *room * size);
    if (items == NULL)
        fail("the launcher", "out of memory");
    return items;
}

void *fresh(size_t size) {
    void *result = calloc(1, size);
    if (result == NULL)
        fail("the launcher", "out of memory");
    return result;
}

char *joined(const char *first, size_t first_size, const char *second, size_t second_size) {
    char *result = fresh(first_size + second_size + 1);
    memcpy(result, first, first_size);
    memcpy(result + first_size, second, second_size);
    return result;
}

char *content(const char *path, size_t *size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (file < 0)
        return NULL;
    char *data = NULL;
    if (fstat(file, &status) == 0 && (data = malloc((size_t)status.st_size + 1)) != NULL) {
        ssize_t got = read(file, data, (size_t)status.st_size);
        *size = got < 0 ? 0 : (size_t)got;
        data[*size] = 0;
    }
    close(file);
    return data;
}

const char *next_field(const char **at, const char *end) {
    if (*at >= end)
        return NULL;
    const char *field = *at;
    *at += strlen(field) + 1;
    return field;
}

/* The fields of the configuration: each a letter and its value, ended by a zero; written by launching.py. */
static void read_configuration(const char *path, struct configuration *configuration) {
    size_t size;
    const char *at = content(path, &size), *field;
    if (at == NULL)
        fail(path, "the toolchain's configuration cannot be read; write the toolchain anew");
    for (const char *end = at + size; (field = next_field(&at, end)) != NULL;) {
        const char *value = field + 1;
        struct need *need = configuration->needs.count ? &configuration->needs.items[configuration->needs.count - 1] : NULL;
        switch (*field) {
        case 'C': APPEND(&configuration->compiler, value); break;
        case 'P': APPEND(&configuration->python, value); break;
        case 'S': APPEND(&configuration->separate, value); break;
        case 'Q': APPEND(&configuration->questions, value); break;
        case 'G': APPEND(&configuration->folder_flags, value); break;
        case 'E': APPEND(&configuration->endings, value); break;
        case 'L': configuration->log = value; break;
        case 'O': configuration->folders = value; break;
        case 'R': configuration->links = true; break;
        case 'H': configuration->launched = true; break;
        case 'N': APPEND(&configuration->needs, (struct need){.use = 0}); break;
        case 'w':
            if (need)
                APPEND(&need->words, value);
            break;
        case 'd': case 'c': case 'r':
            if (need)
                need->use = *field, need->used = value;
            break;
        case 'F': case 'f':
            if (need)
                APPEND(&need->files, field);
            break;
        default: fail(path, "written by another version; write the toolchain anew");
        }
    }
    if (!configuration->compiler.count || !configuration->python.count || !configuration->log || !configuration->folders)
        fail(path, "this is no configuration of the launcher; write the toolchain anew");
}

/* Tell whether a program is this launcher, or a copy of it. */
static bool is_launcher(const char *path, const struct stat *status) {
    struct stat own;
    char first[2][4096];
    if (stat("/proc/self/exe", &own) != 0 || own.st_size != status->st_size)
        return false;
    for (int index = 0; index < 2; index++) {
        int file = open(index ? path : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
        bool whole = file >= 0 && read(file, first[index], sizeof first[index]) == (ssize_t)sizeof first[index];
        if (file >= 0)
            close(file);
        if (!whole)
            return false;
    }
    return memcmp(first[0], first[1], sizeof first[0]) == 0;
}

/* Return the path of the program that the compiler's name stands for; never a launcher, which may lie on PATH as `gcc`. */
static const char *found_program(const char *name, bool *passed_self) {
    struct stat status;
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return name;
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (;;) {
        size_t size = strcspn(path, ":");
        char *folder = joined(path, size, "/", size ? 1 : 0), *program = joined(folder, strlen(folder), name, strlen(name));
        if (stat(program, &status) == 0 && S_ISREG(status.st_mode) && access(program, X_OK) == 0) {
            if (!is_launcher(program, &status))
                return program;
            *passed_self = true;
        }
        if (path[size] == 0)
            return NULL;
        path += size + 1;
    }
}

bool write_aside(const char *path, const char *data, size_t size) {
    char aside[PATH_MAX];
    if (snprintf(aside, sizeof aside, "%s.%d", path, (int)getpid()) >= (int)sizeof aside)
        return false;
    int file = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0)
        return false;
    bool whole = write(file, data, size) == (ssize_t)size;
    close(file);
    whole = whole && rename(aside, path) == 0;
    if (!whole)
        unlink(aside);
    return whole;
}

static uint64_t mixed(uint64_t hash, const char *text) {
    for (const char *at = text;; at++) {
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3;
        if (*at == 0)
            return hash;
    }
}

/* Read what Python noted of the compiler's own folders; false when it did not, or the compiler is another now. See folders.py. */
static bool read_folders(
    const struct configuration *configuration, const struct command *command, enum language language, const char *name,
    const char *program, struct folders *folders) {
    uint64_t hash = mixed(0xcbf29ce484222325, name);
    for (size_t index = 0; index < command->folder_flags.count; index++)
        hash = mixed(hash, command->folder_flags.items[index]);
    char path[PATH_MAX], stamp[64];
    struct stat status;
    if (program == NULL || stat(program, &status) != 0)
        return false;
    long long changed = status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec;
    snprintf(stamp, sizeof stamp, "%lld %lld", changed, (long long)status.st_size);
    int length = snprintf(
        path, sizeof path, "%s-%s-%016llx", configuration->folders, language == LANGUAGE_CXX ? "c++" : "c",
        (unsigned long long)hash);
    size_t size, flags = 0;
    const char *at = length < (int)sizeof path ? content(path, &size) : NULL, *field;
    bool right = false, usable = true;
    for (const char *end = at ? at + size : NULL; at && (field = next_field(&at, end)) != NULL;) {
        switch (*field) {
        case 'T': right = strcmp(field + 1, stamp) == 0; break;
        case 'K':
            usable &= flags < command->folder_flags.count && strcmp(command->folder_flags.items[flags], field + 1) == 0;
            flags++;
            break;
        case 'd': APPEND(&folders->system, field + 1); break;
        case 'D': APPEND(&folders->definitions, field + 1); break;
        default: usable = false;
        }
    }
    folders->index = joined(path, strlen(path), "-headers", strlen("-headers"));
    return right && usable && flags == command->folder_flags.count;
}

static bool all_passed_over(
    const struct configuration *configuration, const struct command *command, const char *name, const char *program) {
    for (size_t index = 0; index < command->sources.count; index++) {
        const struct source *source = &command->sources.items[index];
        struct folders folders = {.system.count = 0};
        if (source->language != PREPROCESSED &&
            !read_folders(configuration, command, source->language, name, program, &folders))
            return false;
        if (!cannot_hold_site(configuration, command, source, &folders))
            return false;
    }
    return true;
}

typedef LIST(char) bytes_t;

static void add_field(bytes_t *record, char tag, const char *value) {
    APPEND(record, tag);
    for (size_t place = 0; place <= strlen(value); place++)
        APPEND(record, value[place]);
}

/* Note the sources as passed over, by one write: other compilers of the build append to the same file. */
static bool note_passed_over(const struct configuration *configuration, const struct command *command) {
    bytes_t record = {.count = 0};
    struct timespec now;
    char time[32], folder[PATH_MAX];
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || getcwd(folder, sizeof folder) == NULL)
        return false;
    snprintf(time, sizeof time, "%lld", now.tv_sec * 1000000000LL + now.tv_nsec);
    for (size_t index = 0; index < command->sources.count; index++) {
        add_field(&record, 't', time);
        add_field(&record, 'f', folder);
        add_field(&record, 's', command->sources.items[index].path);
        add_field(&record, 'o', command->output);
        for (size_t place = 0; place < command->quote.count; place++)
            add_field(&record, 'i', command->quote.items[place]);
        for (size_t place = 0; place < command->bracket.count; place++)
            add_field(&record, 'i', command->bracket.items[place]);
        APPEND(&record, 0);
    }
    int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, log = open(configuration->log, flags, 0666);
    if (log < 0 && errno == ENOENT) {
        char *above = joined(configuration->log, (size_t)(strrchr(configuration->log, '/') - configuration->log), "", 0);
        mkdir(above, 0777);
        log = open(configuration->log, flags, 0666);
    }
    bool whole = log >= 0 && write(log, record.items, record.count) == (ssize_t)record.count;
    if (log >= 0)
        close(log);
    return whole;
}

int main(int argc, char **argv) {
    (void)argc;
    if (launcher_configuration[0] == '@') {
        puts("unperturbed launcher"); /* who compiled it looks whether it runs here */
        return 0;
    }
    struct configuration configuration = {.links = false};
    read_configuration(launcher_configuration, &configuration);
    LIST(char *) words = {.count = 0};
    for (size_t index = 0; index < configuration.python.count; index++)
        APPEND(&words, (char *)configuration.python.items[index]);
    size_t own = words.count;
    for (size_t index = 0; index < configuration.compiler.count; index++)
        APPEND(&words, (char *)configuration.compiler.items[index]);
    for (char **word = argv + 1; *word; word++)
        APPEND(&words, *word);
    APPEND(&words, NULL);

    struct command command = {.output = ""};
    enum decision decision = read_command(&configuration, words.items + own, &command);
    bool passed_self = false;
    char **compiler = &words.items[own + (configuration.launched ? 1 : 0)];
    const char *program = found_program(*compiler, &passed_self);
    if (program && passed_self)
        *compiler = (char *)program;
    if (decision == LOOK_INTO_SOURCES) {
        bool run = all_passed_over(&configuration, &command, *compiler, program) && note_passed_over(&configuration, &command);
        decision = run ? RUN_COMPILER : ASK_PYTHON;
    }
    char **chosen = decision == RUN_COMPILER ? words.items + own : words.items;
    execvp(chosen[0], chosen);
    dprintf(STDERR_FILENO, "unperturbed cc: the %s %s cannot be run (%s); is it installed and on PATH?\n",
            decision == RUN_COMPILER ? "compiler" : "wrapper's Python", chosen[0], strerror(errno));
    return OWN_ERROR;
}
