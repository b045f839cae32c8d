/* Main program: decides, records the sources that it passes over, and becomes the compiler or the wrapper. */
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

/* The toolchain writes the configuration's path into its copies of this program, so that they can be copied, linked and
 * renamed. A digest of the settings follows the path: tools that identify a compiler by its content, such as ccache,
 * must notice new settings. */
char launcher_configuration[PATH_MAX + 64] = "@UNPERTURBED-LAUNCHER-CONFIGURATION@";

/* Tell whether a program is this launcher or a copy. */
static bool is_launcher(const char *path, const struct stat *status)
{
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

/* Return the path of the program that the compiler's name means; never a launcher, which may be on PATH as `gcc`. */
static const char *found_program(const char *name, bool *passed_self)
{
    struct stat status;
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return name;
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (;;) {
        size_t size = strcspn(path, ":");
        char *folder = joined(path, size, "/", size ? 1 : 0),
             *program = joined(folder, strlen(folder), name, strlen(name));
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

static bool all_passed_over(const struct configuration *configuration, const struct command *command, const char *name,
                            const char *program)
{
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

/* Log the sources as passed over, with one write: other compilers of the build append to the same file. */
static bool note_passed_over(const struct configuration *configuration, const struct command *command)
{
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
        char *above =
            joined(configuration->log, (size_t)(strrchr(configuration->log, '/') - configuration->log), "", 0);
        mkdir(above, 0777);
        log = open(configuration->log, flags, 0666);
    }
    bool whole = log >= 0 && write(log, record.items, record.count) == (ssize_t)record.count;
    if (log >= 0)
        close(log);
    return whole;
}

int main(int argc, char **argv)
{
    (void)argc;
    if (launcher_configuration[0] == '@') {
        puts("unperturbed launcher"); /* whoever compiled it checks that it runs here */
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
        bool run =
            all_passed_over(&configuration, &command, *compiler, program) && note_passed_over(&configuration, &command);
        decision = run ? RUN_COMPILER : ASK_PYTHON;
    }
    char **chosen = decision == RUN_COMPILER ? words.items + own : words.items;
    execvp(chosen[0], chosen);
    dprintf(STDERR_FILENO, "unperturbed cc: cannot run the %s %s (%s); is it installed and on PATH?\n",
            decision == RUN_COMPILER ? "compiler" : "wrapper's Python", chosen[0], strerror(errno));
    return OWN_ERROR;
}
