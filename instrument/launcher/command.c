/* The parts of a compiler command line that the launcher understands with certainty; command_line.py reads the rest. */
#include "launcher.h"

/* Variables that change the search folders in ways that the launcher does not follow. */
static const char *const VARIABLES[] = {"GCC_EXEC_PREFIX", "COMPILER_PATH", "CCC_OVERRIDE_OPTIONS", "SDKROOT", NULL};

extern char **environ;

static bool matches(const char *pattern, const char *word)
{
    size_t size = strlen(pattern);
    return size && pattern[size - 1] == '*' ? strncmp(pattern, word, size - 1) == 0 : strcmp(pattern, word) == 0;
}

static bool is_listed(const words_t *patterns, const char *word)
{
    for (size_t index = 0; index < patterns->count; index++)
        if (matches(patterns->items[index], word))
            return true;
    return false;
}

/* Return the language of a source by its file extension, as command_line.py names it; NULL for other files. */
static const char *language_of(const struct configuration *configuration, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *point = strrchr(name, '.');
    if (point == NULL || point == name)
        return NULL;
    for (size_t index = 0; index < configuration->endings.count; index++) {
        const char *entry = configuration->endings.items[index], *sign = strchr(entry, '=');
        if (sign && (size_t)(sign - entry) == strlen(point) && strncmp(entry, point, strlen(point)) == 0)
            return sign + 1;
    }
    return NULL;
}

/* Record -I and similar options; false if `word` is a different option, or a folder that needs more than its name. */
static bool note_path(struct command *command, const char *word, const char *value)
{
    static const struct {
        const char *option;
        size_t list;
    } PATHS[] = {
        {"-iquote", offsetof(struct command, quote)},    {"-isystem", offsetof(struct command, system)},
        {"-idirafter", offsetof(struct command, after)}, {"-include", offsetof(struct command, forced)},
        {"-imacros", offsetof(struct command, forced)},  {"-I", offsetof(struct command, bracket)},
        {"-D", offsetof(struct command, definitions)},
    };
    for (size_t index = 0; index < sizeof PATHS / sizeof *PATHS; index++) {
        const char *option = PATHS[index].option;
        if (!starts(word, option))
            continue;
        words_t *list = (words_t *)((char *)command + PATHS[index].list);
        const char *given = word[strlen(option)] ? word + strlen(option) : value;
        if (given == NULL || *given == 0 || *given == '=' || *given == '$' || strcmp(given, "-") == 0)
            return false;
        if (starts(word, "-include-") || starts(word, "-isystem-"))
            return false;
        APPEND(list, given);
        return true;
    }
    return false;
}

/* Record -Wp,-D… and accept the dependency files of -Wp,-MD,…; false for all other options that the driver only passes
 * on to the preprocessor. */
static bool note_preprocessor_words(struct command *command, const char *word)
{
    const char *at = word + strlen("-Wp,");
    if (starts(at, "-MD,") || starts(at, "-MMD,"))
        return strchr(strchr(at, ',') + 1, ',') == NULL;
    if (strchr(at, ',') || !(starts(at, "-D") || starts(at, "-U")) || at[2] == 0)
        return false;
    if (at[1] == 'D')
        APPEND(&command->definitions, at + 2);
    return true;
}

static void note_variable(words_t *list, const char *value)
{
    while (*value) {
        size_t size = strcspn(value, ":");
        APPEND(list, size ? joined(value, size, "", 0) : ".");
        value += size;
        if (*value == ':' && value[1] == 0)
            APPEND(list, "."); /* an empty entry is the working folder */
        value += *value == ':';
    }
}

/* Record CPATH and similar variables: folders that gcc and clang search after -I, and after -isystem. */
static bool note_environment(struct command *command, enum language language)
{
    for (char **entry = environ; *entry; entry++) {
        if (starts(*entry, "CPATH="))
            note_variable(&command->bracket, *entry + strlen("CPATH="));
        else if (starts(*entry, "C_INCLUDE_PATH=") && language == LANGUAGE_C)
            note_variable(&command->system, *entry + strlen("C_INCLUDE_PATH="));
        else if (starts(*entry, "CPLUS_INCLUDE_PATH=") && language == LANGUAGE_CXX)
            note_variable(&command->system, *entry + strlen("CPLUS_INCLUDE_PATH="));
        for (const char *const *name = VARIABLES; *name; name++)
            if (starts(*entry, *name) && (*entry)[strlen(*name)] == '=')
                return false;
    }
    return true;
}

/* Read one option; false if only the Python wrapper knows its effect on the sources. */
static bool note_option(const struct configuration *configuration, struct command *command, const char *word,
                        const char *value)
{
    if (starts(word, "-o")) {
        command->output = word[2] ? word + 2 : value ? value : "";
        return true;
    }
    if (starts(word, "-Wp,"))
        return note_preprocessor_words(command, word);
    if (note_path(command, word, value))
        return true;
    if (is_listed(&configuration->folder_flags, word)) {
        APPEND(&command->folder_flags, word);
        if (value)
            APPEND(&command->folder_flags, value);
        return true;
    }
    return is_listed(&configuration->harmless, word) && !is_listed(&configuration->exceptions, word);
}

enum decision read_command(const struct configuration *configuration, char *const *words, struct command *command)
{
    size_t index = configuration->launched ? 2 : 1;
    bool compiles = false, inputs = false, certain = true, needs = configuration->needs.count > 0;
    for (; words[index]; index++) {
        const char *word = words[index], *value = NULL;
        if (*word == '@')
            return needs || configuration->links ? ASK_PYTHON : RUN_COMPILER;
        if (*word != '-' || word[1] == 0) {
            inputs = true;
            certain &= *word != '-';
            const char *language = language_of(configuration, word);
            if (language == NULL)
                continue;
            enum language read = strcmp(language, "c") == 0     ? LANGUAGE_C
                                 : strcmp(language, "c++") == 0 ? LANGUAGE_CXX
                                                                : PREPROCESSED;
            certain &= *language != '-'; /* Python records sources that cannot be instrumented */
            APPEND(&command->sources, (struct source){word, read});
            continue;
        }
        if (is_listed(&configuration->questions, word))
            return RUN_COMPILER;
        bool stops = is_listed(&configuration->compiling, word);
        compiles |= stops;
        if (is_listed(&configuration->separate, word) && words[index + 1])
            value = words[++index];
        certain &= stops || note_option(configuration, command, word, value);
    }
    if (!inputs || (compiles && !needs) || (!needs && !configuration->links))
        return RUN_COMPILER;
    if ((!compiles && configuration->links) || !certain)
        return ASK_PYTHON;
    if (command->sources.count == 0)
        return RUN_COMPILER;
    enum language language = command->sources.items[0].language;
    for (size_t place = 1; place < command->sources.count; place++)
        if (command->sources.items[place].language != language)
            return ASK_PYTHON;
    return note_environment(command, language) ? LOOK_INTO_SOURCES : ASK_PYTHON;
}
