/* Find the file of an #include as gcc and clang do; a file that is missing here is missing for them, too. */
#define _GNU_SOURCE
#include "launcher.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_FILES = 20000, MOST_BYTES = 64 << 20, CHUNK = 1 << 20 };

/* Add a text; PADDING bytes after it belong to the launcher. */
void add_text(struct search *search, const char *path, char *data, size_t size, bool trusted)
{
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

/* Add a file if it exists. An #include ignores folders; a pipe can be read only once, and the compiler must read it. */
bool add_file(struct search *search, const char *path, bool trusted)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (file < 0)
        return false;
    bool is_there = fstat(file, &status) == 0, is_file = is_there && S_ISREG(status.st_mode);
    bool is_too_large = is_file && status.st_size > MOST_BYTES;
    search->tree.odd |= !is_there || is_too_large || !(is_file || S_ISDIR(status.st_mode));
    if (is_file && !is_too_large) {
        size_t size = (size_t)status.st_size, wanted = size + PADDING;
        if (wanted > search->chunk_left) {
            search->chunk_left = wanted > CHUNK ? wanted : CHUNK;
            search->chunk = fresh(search->chunk_left);
        }
        bool whole = read(file, search->chunk, size) == (ssize_t)size;
        search->tree.odd |= !whole;
        if (whole) {
            add_text(search, path, search->chunk, size, trusted);
            search->chunk += wanted, search->chunk_left -= wanted;
        }
    }
    close(file);
    return is_file;
}

/* Search for a name in a folder, and read the file if this is the first time.
 *
 * precompiled: the compiler would take a precompiled header instead; only Python knows the text that results. */
static enum found is_in_folder(struct search *search, const char *folder, size_t folder_size, const char *name,
                               size_t size, bool trusted, bool precompiled)
{
    char path[PATH_MAX];
    bool slash = folder_size && folder[folder_size - 1] != '/';
    if (folder_size + slash + size + sizeof ".gch" > sizeof path) {
        search->tree.odd = true;
        return ABSENT;
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
    const struct entry *known = look_up(&search->paths, path, size);
    if (known)
        return (enum found)known->value;
    const char *kept = joined(path, size, "", 0);
    enum found found = add_file(search, kept, trusted) ? trusted ? OF_SYSTEM : OF_USER : ABSENT;
    add_name(&search->paths, kept, size, found);
    return found;
}

static enum found is_in_folders(struct search *search, const struct folder *folders, size_t count, const char *name,
                                size_t size, bool every, bool precompiled)
{
    enum found found = ABSENT;
    bool certain = false;
    for (const struct folder *folder = folders; folder < folders + count && (every || !certain); folder++) {
        enum found here =
            is_in_folder(search, folder->path, strlen(folder->path), name, size, folder->trusted, precompiled);
        found = here > found ? here : found;
        certain |= here && !folder->doubtful;
    }
    return certain || every ? found : found ? DOUBTFUL : ABSENT;
}

/* Search the folders that do not depend on the including file. `every`: search all of them, whatever their order. */
static enum found search_folders(struct search *search, const char *name, size_t size, bool every, bool precompiled)
{
    bool quoted = *name == '"' || every;
    const struct entry *known = look_up(&search->bracketed, name + 1, size - 1);
    enum found found = ABSENT, further = known ? (enum found)known->value : ABSENT;
    if (quoted)
        found = is_in_folders(search, search->quote.items, search->quote.count, name + 1, size - 1, every, precompiled);
    if ((found == OF_SYSTEM || found == OF_USER) && !every)
        return found;
    if (!known || precompiled || every) {
        const struct folder *folders = search->bracket.items;
        further = is_in_folders(search, folders, search->bracket.count, name + 1, size - 1, every, precompiled);
        if (!every)
            add_name(&search->bracketed, name + 1, size - 1, further);
    }
    return further > found ? further : found;
}

/* Read the files that an #include may mean. name: with its first " or <. */
enum found include(struct search *search, size_t includer, const char *name, size_t size, bool next)
{
    struct file file = search->tree.files.items[includer];
    bool precompiled = includer <= DEFINITIONS;
    if (name[1] == '/')
        return is_in_folder(search, "", 0, name + 1, size - 1, file.trusted, precompiled);
    if (*name == '"' && !next) {
        const char *slash = strrchr(file.path, '/');
        size_t folder_size = slash ? (size_t)(slash - file.path) + 1 : 0;
        enum found found = is_in_folder(search, file.path, folder_size, name + 1, size - 1, file.trusted, precompiled);
        if (found)
            return found;
    }
    enum found found = search_folders(search, name, size, next, precompiled);
    if (file.trusted) {
        APPEND(&search->system_includes, joined(name + 1, size - 1, "", 0));
        search->shadowed |= found == OF_USER;
    }
    return found;
}

static void add_folder(struct search *search, const char *path, bool own, bool quote)
{
    struct stat status;
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode))
        return;
    struct folder folder = {path, status.st_dev, status.st_ino, own, own, false};
    if (quote)
        APPEND(&search->quote, folder);
    else
        APPEND(&search->bracket, folder);
}

static bool is_same(const struct folder *one, const struct folder *other)
{
    return one->device == other->device && one->inode == other->inode;
}

/* Fill the lists of folders. gcc and clang skip a user's folder that is also a system folder: it keeps its position
 * among the system folders. */
void add_folders(struct search *search, const struct command *command, const struct folders *folders)
{
    const words_t *lists[] = {&command->bracket, &command->system, &folders->system, &command->after};
    size_t users = 0;
    for (size_t index = 0; index < command->quote.count; index++)
        add_folder(search, command->quote.items[index], false, true);
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++) {
        for (size_t index = 0; index < lists[list]->count; index++)
            add_folder(search, lists[list]->items[index], lists[list] == &folders->system, false);
        users = list == 0 ? search->bracket.count : users;
    }
    struct folder *bracket = search->bracket.items, *quote = search->quote.items;
    for (size_t index = 0; index < search->bracket.count; index++)
        for (size_t other = 0; other < search->bracket.count; other++) {
            bool same = is_same(&bracket[index], &bracket[other]);
            bracket[index].doubtful |= same && other > index && other >= users;
            bracket[index].trusted |= same && bracket[other].own;
        }
    for (size_t index = 0; index < search->quote.count; index++)
        for (size_t other = users; other < search->bracket.count; other++) {
            quote[index].doubtful |= is_same(&quote[index], &bracket[other]);
            quote[index].trusted |= is_same(&quote[index], &bracket[other]) && bracket[other].own;
        }
}
