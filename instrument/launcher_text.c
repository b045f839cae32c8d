/* The source and every file that it may include, with all branches of #if taken, and which needed words stand in them.
 *
 * What a preprocessor writes are words that stand in these files or in -D, unless ## made them or a line break splits them; both are
 * looked for. Which file an #include means is found as gcc and clang do; what is not there is not there for them either.
 */
#define _GNU_SOURCE
#include "launcher.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SOURCE, DEFINITIONS }; /* the first files: the source itself, and what -D says, which comes from no folder */
enum { MOST_FILES = 20000, MOST_BYTES = 64 << 20, PADDING = 16, CHUNK = 1 << 20 };

struct folder {
    const char *path;
    dev_t device;
    ino_t inode;
    bool trusted;
};

struct sought {
    const char *word;
    size_t size;
    bool found;
};

/* A name that was looked for: the path of a file, or < and a name in <>. */
struct looked_for {
    const char *name;
    bool found;
};

struct search {
    struct tree tree;
    LIST(struct folder) quote, bracket;
    LIST(struct sought) words;
    struct {
        struct looked_for *items;
        size_t count, room;
    } names; /* open-addressed */
    size_t bytes;
    char *chunk;
    size_t chunk_left;
};

static void insert(struct search *search, struct looked_for entry);

static struct looked_for *find(struct search *search, const char *name, size_t size) {
    if (2 * (search->names.count + 1) > search->names.room) {
        struct looked_for *old = search->names.items;
        size_t room = search->names.room;
        search->names.room = room ? 2 * room : 1024;
        search->names.items = fresh(search->names.room * sizeof *old);
        for (size_t index = 0; index < room; index++)
            if (old[index].name)
                insert(search, old[index]);
    }
    uint64_t hash = size;
    for (size_t index = 0; index < size; index++)
        hash = (hash ^ (unsigned char)name[index]) * 0x100000001b3;
    for (size_t place = hash ^ hash >> 29;; place++) {
        struct looked_for *entry = &search->names.items[place & (search->names.room - 1)];
        if (!entry->name || (strncmp(entry->name, name, size) == 0 && entry->name[size] == 0))
            return entry;
    }
}

static void insert(struct search *search, struct looked_for entry) {
    *find(search, entry.name, strlen(entry.name)) = entry;
}

/* Add a text; PADDING bytes behind it are ours. */
static void add_text(struct search *search, const char *path, char *data, size_t size, bool trusted) {
    memset(data + size, 0, PADDING);
    search->bytes += size;
    if (search->tree.files.count >= MOST_FILES || search->bytes > MOST_BYTES)
        search->tree.odd = true;
    else
        APPEND(&search->tree.files, (struct file){path, data, size, trusted});
    for (size_t index = 0; index < search->words.count; index++) {
        struct sought *sought = &search->words.items[index];
        if (!sought->found)
            sought->found = memmem(data, size, sought->word, sought->size) != NULL;
    }
}

/* Add a file if there is one. A folder is none for an #include; of a pipe the compiler must have the one reading. */
static bool add_file(struct search *search, const char *path, bool trusted) {
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0)
        return false;
    bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    search->tree.odd |= !is_file && !S_ISDIR(status.st_mode);
    if (is_file) {
        size_t size = (size_t)status.st_size, wanted = size + PADDING;
        if (wanted > search->chunk_left) {
            search->chunk_left = wanted > CHUNK ? wanted : CHUNK;
            search->chunk = fresh(search->chunk_left);
        }
        bool whole = size <= MOST_BYTES && read(file, search->chunk, size) == (ssize_t)size;
        search->tree.odd |= !whole;
        if (whole) {
            add_text(search, path, search->chunk, size, trusted);
            search->chunk += wanted, search->chunk_left -= wanted;
        }
    }
    close(file);
    return is_file;
}

/* Look for a name in a folder, and read the file if this is the first time.
 *
 * precompiled: a header compiled beforehand would be taken in its place; only Python knows what then stands in the text. */
static bool is_in_folder(
    struct search *search, const char *folder, size_t folder_size, const char *name, size_t size, bool trusted,
    bool precompiled) {
    char path[PATH_MAX];
    bool slash = folder_size && folder[folder_size - 1] != '/';
    if (folder_size + slash + size + sizeof ".gch" > sizeof path) {
        search->tree.odd = true;
        return false;
    }
    memcpy(path, folder, folder_size);
    path[folder_size] = '/';
    memcpy(path + folder_size + slash, name, size);
    size += folder_size + slash;
    for (const char *ending = ".gch\0.pch\0"; precompiled && !trusted && *ending; ending += sizeof ".gch") {
        memcpy(path + size, ending, sizeof ".gch");
        search->tree.odd |= access(path, F_OK) == 0;
    }
    path[size] = 0;
    struct looked_for *entry = find(search, path, size);
    if (!entry->name) {
        const char *kept = joined(path, size, "", 0);
        *entry = (struct looked_for){kept, add_file(search, kept, trusted)};
        search->names.count++;
    }
    return entry->found;
}

static bool is_in_bracket_folders(
    struct search *search, const char *name, size_t size, bool every, bool precompiled) {
    bool found = false;
    for (size_t index = 0; index < search->bracket.count && (every || !found); index++) {
        const struct folder *folder = &search->bracket.items[index];
        found |= is_in_folder(search, folder->path, strlen(folder->path), name, size, folder->trusted, precompiled);
    }
    return found;
}

/* Read what an #include may mean. name: with its first " or <. */
static bool include(struct search *search, size_t includer, const char *name, size_t size, bool next) {
    struct file file = search->tree.files.items[includer];
    bool quoted = *name == '"', precompiled = includer <= DEFINITIONS, found = false;
    if (name[1] == '/')
        return is_in_folder(search, "", 0, name + 1, size - 1, file.trusted, precompiled);
    if (next) { /* which one comes next depends on where this one was found: all */
        for (size_t index = 0; index < search->quote.count; index++) {
            const char *folder = search->quote.items[index].path;
            found |= is_in_folder(search, folder, strlen(folder), name + 1, size - 1, false, precompiled);
        }
        return is_in_bracket_folders(search, name + 1, size - 1, true, precompiled) || found;
    }
    if (quoted) {
        const char *slash = strrchr(file.path, '/');
        size_t folder_size = slash ? (size_t)(slash - file.path) + 1 : 0;
        found = is_in_folder(search, file.path, folder_size, name + 1, size - 1, file.trusted, precompiled);
        for (size_t index = 0; index < search->quote.count && !found; index++) {
            const char *folder = search->quote.items[index].path;
            found = is_in_folder(search, folder, strlen(folder), name + 1, size - 1, false, precompiled);
        }
        if (found)
            return true;
    }
    char *key = joined("<", 1, name + 1, size - 1);
    struct looked_for *entry = find(search, key, size);
    if (!entry->name || precompiled) {
        found = is_in_bracket_folders(search, name + 1, size - 1, false, precompiled);
        entry = find(search, key, size); /* it may have moved */
        search->names.count += !entry->name;
        *entry = (struct looked_for){key, found};
    }
    return entry->found;
}

/* Return where the next thing on a directive's line begins: behind blanks and spliced line breaks; comments count as things. */
static const char *after_blanks(const char *at) {
    for (;;) {
        const char *behind = at;
        while (is_blank(*behind) || *behind == '\\') {
            const char *line = behind + 1;
            if (*behind == '\\')
                while (is_blank(*line) || *line == '\r')
                    line++;
            if (*behind == '\\' && *line != '\n')
                return behind;
            behind = *behind == '\\' ? line + 1 : line;
        }
        if (behind == at)
            return at;
        at = behind;
    }
}

static bool is_directive(const char *word, size_t size, const char *name) {
    return strlen(name) == size && memcmp(word, name, size) == 0;
}

/* Read the directive behind a # that stands first on its line. */
static void read_directive(struct search *search, size_t index, const char *sign) {
    struct file file = search->tree.files.items[index];
    const char *word = after_blanks(sign + 1), *behind = word;
    while (is_word(*behind))
        behind++;
    size_t size = (size_t)(behind - word);
    if (size == 0) {
        /* Of # alone, ##, or a # in a comment nothing follows; a comment may stand before the name. */
        search->tree.odd |= *word == '/' && word[1] == '*' && !file.trusted;
        return;
    }
    bool next = is_directive(word, size, "include_next");
    if (next || is_directive(word, size, "include") || is_directive(word, size, "import")) {
        const char *name = after_blanks(behind);
        const char *line = name + strcspn(name, "\n"), *end = line;
        if (*name == '"')
            end = memchr(name + 1, '"', (size_t)(line - name) - (line > name));
        else if (*name == '<')
            end = memchr(name, '>', (size_t)(line - name));
        else if (behind == name && *name != '/')
            return; /* `include,` and the like: prose */
        else {
            search->tree.odd |= is_word_start(*name) || *name == '/'; /* a macro tells the name */
            return;
        }
        if (end == NULL || end < name + 2)
            return;
        bool found = include(search, index, name, (size_t)(end - name), next);
        search->tree.odd |= !found && *name == '"' && !file.trusted;
    } else if (is_directive(word, size, "define")) {
        const char *name = after_blanks(behind);
        search->tree.odd |= *name == '/' && !file.trusted;
        if (is_word_start(*name))
            APPEND(&search->tree.defines, (struct define){index, name});
    } else if (is_directive(word, size, "embed") || is_directive(word, size, "__include_macros")) {
        search->tree.odd = true;
    } else if (is_directive(word, size, "line") || *word <= '9') {
        search->tree.has_line = true;
    } else if (is_directive(word, size, "pragma")) {
        const char *line = behind + strcspn(behind, "\n");
        size_t left = (size_t)(line - behind);
        search->tree.odd |= memmem(behind, left, "include_alias", 13) || memmem(behind, left, "clang module", 12);
    }
}

/* Return the first sign of the logical line that holds `at`: lines that end with a backslash go on. */
static const char *logical_line(const char *start, const char *at) {
    for (;;) {
        const char *line = memrchr(start, '\n', (size_t)(at - start));
        if (line == NULL)
            return start;
        const char *last = line;
        while (last > start && (is_blank(last[-1]) || last[-1] == '\r'))
            last--;
        if (last == start || last[-1] != '\\')
            return line + 1;
        at = line;
    }
}

static bool is_parameter(const char *parameters, const char *end, const char *word, size_t size) {
    if ((size == 11 && memcmp(word, "__VA_ARGS__", size) == 0) || (size == 10 && memcmp(word, "__VA_OPT__", size) == 0))
        return true;
    for (const char *at = parameters; at < end; at++)
        if (is_word_start(*at)) {
            const char *name = at;
            while (at < end && is_word(*at))
                at++;
            if ((size_t)(at - name) == size && memcmp(name, word, size) == 0)
                return true;
        }
    return false;
}

/* Note what a ## at `sign` puts together. Between signs that no word holds, nothing new comes of it: `, ## __VA_ARGS__`. */
static void read_paste(struct search *search, size_t index, const char *sign) {
    const struct file file = search->tree.files.items[index];
    const char *line = logical_line(file.data, sign), *name = line;
    while (is_blank(*name))
        name++;
    name = *name == '#' ? after_blanks(name + 1) : "";
    if (!starts(name, "define")) {
        /* A comment, or else the comment in which the #define's first line ends has ended on this line. */
        bool comment_ends = memmem(line, (size_t)(sign - line), "*/", 2) != NULL;
        search->tree.odd |= comment_ends && !file.trusted;
        return;
    }
    name = after_blanks(name + strlen("define"));
    const char *parameters = name;
    while (is_word(*parameters))
        parameters++;
    struct paste paste = {.macro = name, .macro_size = (size_t)(parameters - name)};
    const char *behind = *parameters == '(' ? strchr(parameters, ')') : parameters;
    if (behind == NULL || behind > sign)
        behind = parameters;
    const char *left_end = sign, *right = sign;
    for (;;) {
        const char *before = left_end;
        while (left_end > behind && (is_blank(left_end[-1]) || left_end[-1] == '\r'))
            left_end--;
        if (left_end - 1 > behind && left_end[-1] == '\n') {
            left_end--; /* spliced: logical_line has found the backslash */
            while (left_end > behind && left_end[-1] != '\\')
                left_end--;
            left_end -= left_end > behind;
        }
        if (left_end == before)
            break;
    }
    while (*right == '#')
        right++;
    right = after_blanks(right);
    const char *left = left_end, *right_end = right;
    while (left > behind && is_word(left[-1]))
        left--;
    while (is_word(*right_end))
        right_end++;
    bool left_open = left_end > file.data && (left_end[-1] == '/' || left_end[-1] == ')');
    bool right_open = *right == '/';
    if ((left == left_end && !left_open) || (right == right_end && !right_open))
        return;
    if (!left_open && !is_parameter(parameters, behind, left, (size_t)(left_end - left)))
        paste.left = left, paste.left_size = (size_t)(left_end - left);
    if (!right_open && !is_parameter(parameters, behind, right, (size_t)(right_end - right)))
        paste.right = right, paste.right_size = (size_t)(right_end - right);
    APPEND(&search->tree.pastes, paste);
}

/* Look for what makes words other than they stand: a line break within one, trigraphs, digraphs for #. */
static bool has_odd_signs(const char *data, size_t size) {
    const char *end = data + size;
    for (const char *at = data; (at = memchr(at, '\\', (size_t)(end - at))) != NULL; at++) {
        const char *line = at + 1;
        while (is_blank(*line) || *line == '\r')
            line++;
        if (*line == '\n' && at > data && (is_word(at[-1]) || at[-1] == '#') && (is_word(line[1]) || line[1] == '#'))
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

static void read_file(struct search *search, size_t index) {
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
        else if (at[1] == '#')
            read_paste(search, index, at);
        while (*at == '#')
            at++;
        if (search->tree.odd)
            return;
    }
}

static void add_folder(struct search *search, const char *path, bool trusted, bool quote) {
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return;
    struct folder folder = {path, status.st_dev, status.st_ino, trusted};
    if (quote)
        APPEND(&search->quote, folder);
    else
        APPEND(&search->bracket, folder);
}

/* Fill the lists of folders. gcc and clang pass over an -I that names a folder of the system: it keeps its place there. */
static void add_folders(struct search *search, const struct command *command, const struct folders *folders) {
    for (size_t index = 0; index < command->quote.count; index++)
        add_folder(search, command->quote.items[index], false, true);
    for (size_t index = 0; index < command->bracket.count; index++)
        add_folder(search, command->bracket.items[index], false, false);
    size_t own = search->bracket.count, kept = 0;
    for (size_t index = 0; index < command->system.count; index++)
        add_folder(search, command->system.items[index], false, false);
    size_t system = search->bracket.count;
    for (size_t index = 0; index < folders->system.count; index++)
        add_folder(search, folders->system.items[index], true, false);
    size_t all = search->bracket.count;
    struct folder *items = search->bracket.items;
    for (size_t index = 0; index < all; index++) {
        bool again = false;
        for (size_t other = own; other < all && index < system; other++) {
            bool same = items[other].device == items[index].device && items[other].inode == items[index].inode;
            again |= same && index < own;
            items[index].trusted |= same && other >= system;
        }
        if (!again)
            items[kept++] = items[index];
    }
    search->bracket.count = kept;
    for (size_t index = 0; index < command->after.count; index++)
        add_folder(search, command->after.items[index], false, false);
}

/* Put -D as #define lines before everything else; = stands for the blank. */
static void add_definitions(struct search *search, const words_t *first, const words_t *second) {
    LIST(char) text = {.count = 0};
    for (const words_t *list = first; list; list = list == first ? second : NULL)
        for (size_t index = 0; index < list->count; index++) {
            bool in_name = true;
            for (const char *at = "#define "; *at; at++)
                APPEND(&text, *at);
            for (const char *at = list->items[index]; *at; at++) {
                APPEND(&text, in_name && *at == '=' ? ' ' : *at);
                in_name &= *at != '=';
            }
            APPEND(&text, '\n');
        }
    size_t size = text.count;
    for (size_t index = 0; index < PADDING; index++)
        APPEND(&text, 0);
    add_text(search, "", text.items, size, false);
}

static bool is_found(const struct search *search, const struct macros *macros, const char *word) {
    for (size_t index = 0; index < search->words.count; index++)
        if (strcmp(search->words.items[index].word, word) == 0 && search->words.items[index].found)
            return true;
    return macros && may_paste(macros, &search->tree, word);
}

static bool has_file(const struct search *search, const char *wanted) {
    for (size_t index = 0; index < search->tree.files.count; index++) {
        const char *path = search->tree.files.items[index].path, *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        size_t size = strlen(name), end = strlen(wanted + 1);
        if (*wanted == 'F' ? strcmp(name, wanted + 1) == 0 : size >= end && strcmp(name + size - end, wanted + 1) == 0)
            return true;
    }
    return search->tree.has_line;
}

static bool is_met(const struct search *search, const struct macros *macros, const struct need *need) {
    for (size_t index = 0; index < need->words.count; index++)
        if (!is_found(search, macros, need->words.items[index]))
            return false;
    for (size_t index = 0; index < need->files.count; index++)
        if (!has_file(search, need->files.items[index]))
            return false;
    return need->used == NULL || !macros || may_paste(macros, &search->tree, need->used) ||
           !is_only_mentioned(macros, &search->tree, need);
}

bool cannot_hold_site(
    const struct configuration *configuration, const struct command *command, const struct source *source,
    const struct folders *folders) {
    struct search *search = fresh(sizeof *search);
    for (size_t index = 0; index < configuration->needs.count; index++)
        for (size_t place = 0; place < configuration->needs.items[index].words.count; place++) {
            const char *word = configuration->needs.items[index].words.items[place];
            APPEND(&search->words, (struct sought){word, strlen(word), false});
        }
    if (!add_file(search, source->path, false))
        return false; /* the wrapper finds out why */
    if (source->language != PREPROCESSED) {
        add_folders(search, command, folders);
        add_definitions(search, &command->definitions, &folders->definitions);
        is_in_bracket_folders(search, "stdc-predef.h", strlen("stdc-predef.h"), false, false); /* gcc reads it before all */
        for (size_t index = 0; index < command->forced.count && !search->tree.odd; index++) {
            const char *name = joined("\"", 1, command->forced.items[index], strlen(command->forced.items[index]));
            search->tree.odd |= !include(search, DEFINITIONS, name, strlen(name), false); /* from the build's folder on */
        }
        for (size_t index = 0; index < search->tree.files.count && !search->tree.odd; index++)
            read_file(search, index);
    } else {
        search->tree.has_line = true; /* every line of it may be any file's */
    }
    if (search->tree.odd)
        return false;
    const struct macros *macros = source->language != PREPROCESSED ? read_macros(&search->tree) : NULL;
    for (size_t index = 0; index < configuration->needs.count; index++)
        if (is_met(search, macros, &configuration->needs.items[index]))
            return false;
    return true;
}
