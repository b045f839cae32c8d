/* Index of system headers that earlier sources included: every source of a C++ program includes megabytes of them.
 *
 * The index of a toolchain grows when a source includes a header for the first time; with each header, it contains all
 * headers that this one includes. It lists their words, without comments, and their macro definitions; so the answer
 * for a source is as if the source included them all. Fields, each ended by a NUL: D, a folder of the compiler's own
 * with its time of change; F, a header with time and size; N, a name that they include; W, the words; X, the
 * definitions.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* Return "time size path", which identifies a version of a file; "time path" for a folder. */
static const char *stamp_of(const char *path)
{
    char stamp[PATH_MAX + 64];
    struct stat status;
    if (stat(path, &status) != 0)
        return "";
    long long changed = status.st_mtim.tv_sec * 1000000000LL + status.st_mtim.tv_nsec;
    int size = S_ISDIR(status.st_mode)
                   ? snprintf(stamp, sizeof stamp, "%lld %s", changed, path)
                   : snprintf(stamp, sizeof stamp, "%lld %lld %s", changed, (long long)status.st_size, path);
    return joined(stamp, (size_t)size, "", 0);
}

/* Tell whether a user's folder may contain one of the names, which then do not mean system headers. */
static bool may_shadow(const char *folder, const struct set *names)
{
    DIR *listing = opendir(folder);
    bool found = false;
    for (struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;)
        found = look_up(names, entry->d_name, strlen(entry->d_name)) != NULL;
    if (listing)
        closedir(listing);
    return found;
}

/* Tell whether the user has headers that system headers would include instead of system headers. */
static bool is_shadowed(const struct search *search, const words_t *included)
{
    struct set names = {.count = 0};
    for (size_t index = 0; index < included->count; index++)
        add_name(&names, included->items[index], strcspn(included->items[index], "/"), 0);
    for (size_t index = 0; index < search->quote.count; index++)
        if (may_shadow(search->quote.items[index].path, &names))
            return true;
    for (size_t index = 0; index < search->bracket.count; index++)
        if (!search->bracket.items[index].trusted && may_shadow(search->bracket.items[index].path, &names))
            return true;
    return false;
}

void read_index(struct search *search)
{
    size_t size, folders = 0;
    const char *at = search->index.path ? content(search->index.path, &size) : NULL, *field;
    words_t files = {.count = 0}, included = {.count = 0};
    const char *words = NULL, *definitions = NULL;
    for (const char *end = at ? at + size : NULL; at && (field = next_field(&at, end)) != NULL;) {
        const char *value = field + 1, *path;
        switch (*field) {
        case 'D':
            while (folders < search->bracket.count && !search->bracket.items[folders].own)
                folders++;
            if (folders == search->bracket.count || strcmp(stamp_of(search->bracket.items[folders++].path), value) != 0)
                return;
            break;
        case 'F':
            path = strchr(value, '/');
            if (path == NULL || strcmp(stamp_of(path), value) != 0)
                return;
            APPEND(&files, value);
            break;
        case 'N':
            APPEND(&included, value);
            break;
        case 'W':
            words = value;
            break;
        case 'X':
            definitions = value;
            break;
        default:
            return;
        }
    }
    if (words == NULL || definitions == NULL || is_shadowed(search, &included))
        return;
    for (size_t index = 0; index < files.count; index++) {
        const char *path = strchr(files.items[index], '/');
        add_name(&search->paths, path, strlen(path), OF_SYSTEM);
    }
    search->system_includes = included;
    search->index.files = files;
    search->index.words = words;
    for (size_t index = 0; index < search->words.count; index++)
        search->words.items[index].indexed = strstr(words, search->words.items[index].word) != NULL;
    size = strlen(definitions);
    bytes_t text = {.count = 0};
    add_bytes(&text, definitions, size);
    add_bytes(&text, (char[PADDING]){0}, PADDING);
    add_text(search, "", text.items, size, true);
}

static void add_new(struct set *known, bytes_t *bytes, const char *text, size_t size, char behind)
{
    if (!add_name(known, text, size, 0))
        return;
    add_bytes(bytes, text, size);
    add_bytes(bytes, &behind, 1);
}

/* Add a #define without comments and redundant blanks; its tokens stay the same. */
static void add_definition(struct set *known, bytes_t *bytes, const struct tree *tree, const struct define *define)
{
    bytes_t line = {.count = 0};
    struct token token, last = define->name;
    bool takes;
    struct cursor cursor = after_name(tree, define, &takes);
    add_bytes(&line, "#define ", 8);
    add_bytes(&line, last.start, last.size);
    if (!takes)
        add_bytes(&line, " ", 1);
    for (; (token = next_token(&cursor)).kind != END; last = token) {
        bool paste = last.kind == SIGN && token.kind == SIGN && *last.start == '#' && *token.start == '#';
        if ((last.kind == SIGN) == (token.kind == SIGN) && !paste)
            add_bytes(&line, " ", 1);
        if (token.kind == LITERAL || token.kind == RAW_LITERAL)
            add_bytes(&line, token.kind == LITERAL ? "\"\"" : "{}", 2);
        else
            add_bytes(&line, token.start, token.size);
    }
    add_new(known, bytes, line.items, line.count, '\n');
}

static void add_words(struct set *known, bytes_t *bytes, struct token directive)
{
    struct cursor cursor = {.at = directive.start, .end = directive.start + directive.size, .in_directive = true};
    for (struct token token; (token = next_token(&cursor)).kind != END;)
        if (token.kind == WORD)
            add_new(known, bytes, token.start, token.size, ' ');
}

void extend_index(struct search *search)
{
    bytes_t words = {.count = 0}, definitions = {.count = 0}, text = {.count = 0};
    struct set known_words = {.count = 0}, known_definitions = {.count = 0}, known_names = {.count = 0};
    size_t added = 0;
    if (search->index.path == NULL || search->shadowed)
        return;
    for (size_t index = 0; index < search->tree.files.count; index++)
        added += search->tree.files.items[index].trusted && *search->tree.files.items[index].path;
    if (added == 0)
        return;
    for (size_t index = 0; index < search->bracket.count; index++)
        if (search->bracket.items[index].own) {
            add_field(&text, 'D', stamp_of(search->bracket.items[index].path));
        }
    add_bytes(&words, " ", 1);
    for (const char *at = search->index.words ? search->index.words + 1 : ""; *at;) {
        size_t size = strcspn(at, " ");
        add_new(&known_words, &words, at, size, ' ');
        at += size + 1;
    }
    for (size_t index = 0; index < search->tree.files.count; index++) {
        const struct file *file = &search->tree.files.items[index];
        if (!file->trusted)
            continue;
        const char *stamp = *file->path ? stamp_of(file->path) : "";
        if (*file->path)
            APPEND(&search->index.files, stamp);
        struct cursor cursor = {.at = file->data, .end = file->data + file->size, .line_start = true};
        for (struct token token; *file->path && (token = next_token(&cursor)).kind != END;)
            if (token.kind != LITERAL && token.kind != SIGN && token.kind != NUMBER)
                add_words(&known_words, &words, token);
    }
    for (size_t index = 0; index < search->index.files.count; index++)
        add_field(&text, 'F', search->index.files.items[index]);
    for (size_t index = 0; index < search->system_includes.count; index++) {
        const char *name = search->system_includes.items[index];
        if (add_name(&known_names, name, strlen(name), 0))
            add_field(&text, 'N', name);
    }
    for (size_t index = 0; index < search->tree.defines.count; index++) {
        const struct define *define = &search->tree.defines.items[index];
        if (search->tree.files.items[define->file].trusted)
            add_definition(&known_definitions, &definitions, &search->tree, define);
    }
    add_bytes(&text, "W", 1);
    add_bytes(&text, words.items, words.count);
    add_bytes(&text, "\0X", 2);
    add_bytes(&text, definitions.items, definitions.count);
    add_bytes(&text, "", 1);
    write_aside(search->index.path, text.items, text.count);
}
