/* The words in the source and in every file that it may include, with all branches of #if taken.
 *
 * A preprocessor writes only words that these files or -D contain, except for words that ## forms or that a line break
 * splits; the launcher searches for both.
 */
#define _GNU_SOURCE
#include "launcher.h"

/* Return the start of the next token on a directive's line: after blanks and spliced line breaks, before a comment. */
static const char *after_blanks(const char *at, const char *end)
{
    for (const char *behind;; at = behind) {
        behind = is_blank(*at) ? at + 1 : spliced(at, end);
        if (behind == NULL)
            return at;
    }
}

/* Read the directive after a # that is first on its line. */
static void read_directive(struct search *search, size_t index, const char *sign)
{
    struct file file = search->tree.files.items[index];
    const char *end_of_file = file.data + file.size;
    struct token word = word_at(after_blanks(sign + 1, end_of_file));
    const char *behind = word.start + word.size;
    if (word.size == 0) {
        /* A lone #, ##, or a # in a comment has no effect; a comment may precede the name. */
        search->tree.odd |= *behind == '/' && behind[1] == '*' && !file.trusted;
        return;
    }
    bool next = equals(word, "include_next");
    if (next || equals(word, "include") || equals(word, "import")) {
        const char *name = after_blanks(behind, end_of_file);
        const char *line = name + strcspn(name, "\n"), *end = line;
        if (*name == '"')
            end = memchr(name + 1, '"', (size_t)(line - name) - (line > name));
        else if (*name == '<')
            end = memchr(name, '>', (size_t)(line - name));
        else if (behind == name && *name != '/')
            return; /* `include,` and the like: prose */
        else {
            search->tree.odd |= is_word_start(*name) || *name == '/'; /* a macro gives the name */
            return;
        }
        if (end == NULL || end < name + 2)
            return;
        include(search, index, name, (size_t)(end - name), next);
    } else if (equals(word, "define")) {
        const char *name = after_blanks(behind, end_of_file);
        search->tree.odd |= (*name == '/' || *name == '\\') && !file.trusted;
        if (is_word_start(*name))
            APPEND(&search->tree.defines, (struct define){index, word_at(name)});
    } else if (equals(word, "embed") || equals(word, "__include_macros")) {
        search->tree.odd = true;
    } else if (equals(word, "line") || !is_word_start(*word.start)) {
        search->tree.has_line = true;
    } else if (equals(word, "pragma")) {
        const char *line = behind + strcspn(behind, "\n");
        size_t left = (size_t)(line - behind);
        search->tree.odd |= memmem(behind, left, "include_alias", 13) || memmem(behind, left, "clang module", 12);
    }
}

/* Search for text that changes words: a line break within a word, trigraphs, digraphs for #. */
static bool has_odd_signs(const char *data, size_t size)
{
    const char *end = data + size;
    for (const char *at = data; (at = memchr(at, '\\', (size_t)(end - at))) != NULL; at++) {
        const char *behind = spliced(at, end);
        if (behind && at > data && (is_word(at[-1]) || at[-1] == '#') && (is_word(*behind) || *behind == '#'))
            return true;
    }
    for (const char *at = data; (at = memchr(at, '?', (size_t)(end - at))) != NULL; at++)
        if (at[1] == '?' && (at[2] == '/' || at[2] == '='))
            return true;
    for (const char *at = data; (at = memchr(at, ':', (size_t)(end - at))) != NULL; at++)
        if (at > data && at[-1] == '%') {
            const char *before = at - 1;
            while (before > data && is_blank(before[-1]))
                before--;
            if (at[1] == '%' || before == data || before[-1] == '\n' || before[-1] == '/')
                return true;
        }
    return false;
}

static void read_file(struct search *search, size_t index)
{
    const struct file file = search->tree.files.items[index];
    const char *end = file.data + file.size;
    if (!file.trusted && has_odd_signs(file.data, file.size))
        search->tree.odd = true;
    for (const char *at = file.data; (at = memchr(at, '#', (size_t)(end - at))) != NULL;) {
        const char *before = at;
        while (before > file.data && is_blank(before[-1]))
            before--;
        bool first = before == file.data || before[-1] == '\n' || before[-1] == '\r' ||
                     (before - file.data >= 2 && before[-1] == '/' && before[-2] == '*') ||
                     (before - file.data == 3 && memcmp(file.data, "\xef\xbb\xbf", 3) == 0);
        if (first)
            read_directive(search, index, at);
        while (*at == '#')
            at++;
        if (search->tree.odd)
            return;
    }
}

/* Add the -D definitions as #define lines, before all other text. */
static void add_definitions(struct search *search, const words_t *first, const words_t *second)
{
    bytes_t text = {.count = 0};
    for (const words_t *list = first; list; list = list == first ? second : NULL)
        for (size_t index = 0; index < list->count; index++) {
            const char *word = list->items[index], *sign = strchr(word, '='), *body = sign ? sign + 1 : "1";
            add_bytes(&text, "#define ", strlen("#define "));
            add_bytes(&text, word, sign ? (size_t)(sign - word) : strlen(word));
            add_bytes(&text, " ", 1);
            add_bytes(&text, body, strlen(body));
            add_bytes(&text, "\n", 1);
        }
    size_t size = text.count;
    add_bytes(&text, (char[PADDING]){0}, PADDING);
    add_text(search, "", text.items, size, false);
}

/* Tell whether the text contains a word, or may form it by ##. */
static bool is_found(const struct search *search, const struct macros *macros, const char *word)
{
    for (size_t index = 0; index < search->words.count; index++) {
        const struct sought *sought = &search->words.items[index];
        if (strcmp(sought->word, word) == 0 && (sought->found || sought->indexed))
            return true;
    }
    return macros && may_paste(macros, word);
}

static bool has_name(const char *path, const char *wanted)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t size = strlen(name), end = strlen(wanted + 1);
    return *wanted == 'F' ? strcmp(name, wanted + 1) == 0 : size >= end && strcmp(name + size - end, wanted + 1) == 0;
}

static bool has_file(const struct search *search, const char *wanted)
{
    for (size_t index = 0; index < search->tree.files.count; index++)
        if (has_name(search->tree.files.items[index].path, wanted))
            return true;
    for (size_t index = 0; index < search->index.files.count; index++)
        if (has_name(search->index.files.items[index], wanted))
            return true;
    return search->tree.has_line;
}

enum answer { NOT_MET, MET, NEEDS_TEXT };

static enum answer meets(const struct configuration *configuration, const struct search *search,
                         const struct macros *macros, const struct need *need)
{
    for (size_t index = 0; index < need->words.count; index++)
        if (!is_found(search, macros, need->words.items[index]))
            return NOT_MET;
    for (size_t index = 0; index < need->files.count; index++)
        if (!has_file(search, need->files.items[index]))
            return NOT_MET;
    if (need->used == NULL || macros == NULL || may_paste(macros, need->used))
        return MET;
    size_t size = strlen(need->used);
    char *whole = joined(" ", 1, need->used, size);
    whole = joined(whole, size + 1, " ", 1);
    if (search->index.words && strstr(search->index.words, whole))
        return NEEDS_TEXT; /* the index does not contain how system headers use the word */
    return is_only_mentioned(configuration, macros, &search->tree, need) ? NOT_MET : MET;
}

static enum answer look(const struct configuration *configuration, const struct command *command,
                        const struct source *source, const struct folders *folders, bool indexed)
{
    struct search *search = fresh(sizeof *search);
    for (size_t index = 0; index < configuration->needs.count; index++)
        for (size_t place = 0; place < configuration->needs.items[index].words.count; place++) {
            const char *word = configuration->needs.items[index].words.items[place];
            APPEND(&search->words, (struct sought){word, strlen(word), false, false});
        }
    if (!add_file(search, source->path, false))
        return MET; /* the wrapper finds out why */
    const struct macros *macros = NULL;
    if (source->language == PREPROCESSED) {
        search->tree.has_line = true; /* its lines may belong to any file */
    } else {
        add_folders(search, command, folders);
        add_definitions(search, &command->definitions, &folders->definitions);
        search->index.path = indexed ? folders->index : NULL;
        read_index(search);
        include(search, DEFINITIONS, "<stdc-predef.h", strlen("<stdc-predef.h"), false); /* gcc reads it first */
        for (size_t index = 0; index < command->forced.count && !search->tree.odd; index++) {
            const char *name = joined("\"", 1, command->forced.items[index], strlen(command->forced.items[index]));
            /* Searched for from the working folder on. */
            search->tree.odd |= !include(search, DEFINITIONS, name, strlen(name), false);
        }
        for (size_t index = 0; index < search->tree.files.count && !search->tree.odd; index++)
            read_file(search, index);
        if (search->tree.odd)
            return MET;
        extend_index(search);
        macros = read_macros(configuration, &search->tree);
    }
    enum answer answer = NOT_MET;
    for (size_t index = 0; index < configuration->needs.count && answer != MET; index++) {
        enum answer met = meets(configuration, search, macros, &configuration->needs.items[index]);
        answer = met != NOT_MET ? met : answer;
    }
    return answer;
}

bool cannot_hold_site(const struct configuration *configuration, const struct command *command,
                      const struct source *source, const struct folders *folders)
{
    enum answer answer = look(configuration, command, source, folders, true);
    if (answer == NEEDS_TEXT)
        answer = look(configuration, command, source, folders, false);
    return answer == NOT_MET;
}
