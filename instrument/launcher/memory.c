/* Growing lists, sets of names, whole files. */
#define _GNU_SOURCE
#include "launcher.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

_Noreturn void fail(const char *what, const char *why)
{
    dprintf(STDERR_FILENO, "unperturbed cc: %s: %s\n", what, why);
    _exit(OWN_ERROR);
}

void *grown(void *items, size_t count, size_t *room, size_t size)
{
    if (count < *room)
        return items;
    *room = *room ? 2 * *room : 16;
    items = realloc(items, *room * size);
    if (items == NULL)
        fail("the launcher", "out of memory");
    return items;
}

void *fresh(size_t size)
{
    void *result = calloc(1, size);
    if (result == NULL)
        fail("the launcher", "out of memory");
    return result;
}

char *joined(const char *first, size_t first_size, const char *second, size_t second_size)
{
    char *result = fresh(first_size + second_size + 1);
    memcpy(result, first, first_size);
    memcpy(result + first_size, second, second_size);
    return result;
}

void add_bytes(bytes_t *bytes, const char *data, size_t size)
{
    while (bytes->count + size > bytes->room)
        bytes->items = grown(bytes->items, bytes->room, &bytes->room, 1);
    if (size)
        memcpy(bytes->items + bytes->count, data, size);
    bytes->count += size;
}

void add_field(bytes_t *bytes, char letter, const char *value)
{
    APPEND(bytes, letter);
    add_bytes(bytes, value, strlen(value) + 1);
}

/* Return the entry of a name in a set, or the free entry for it. */
static struct entry *place_in(const struct set *set, const char *name, size_t size)
{
    uint64_t hash = size;
    for (size_t index = 0; index < size; index++)
        hash = (hash ^ (unsigned char)name[index]) * 0x100000001b3;
    for (size_t place = hash ^ hash >> 29;; place++) {
        struct entry *entry = &set->items[place & (set->room - 1)];
        if (!entry->name || (entry->size == size && memcmp(entry->name, name, size) == 0))
            return entry;
    }
}

const struct entry *look_up(const struct set *set, const char *name, size_t size)
{
    const struct entry *entry = set->room ? place_in(set, name, size) : NULL;
    return entry && entry->name ? entry : NULL;
}

bool add_name(struct set *set, const char *name, size_t size, uint32_t value)
{
    if (2 * (set->count + 1) > set->room) {
        size_t room = set->room ? 4 * set->room : 1024;
        struct set wider = {.items = fresh(room * sizeof *set->items), .count = set->count, .room = room};
        for (size_t index = 0; index < set->room; index++)
            if (set->items[index].name)
                *place_in(&wider, set->items[index].name, set->items[index].size) = set->items[index];
        *set = wider;
    }
    struct entry *entry = place_in(set, name, size);
    if (entry->name)
        return false;
    *entry = (struct entry){name, size, value};
    set->count++;
    return true;
}

char *content(const char *path, size_t *size)
{
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

const char *next_field(const char **at, const char *end)
{
    if (*at >= end)
        return NULL;
    const char *field = *at;
    *at += strlen(field) + 1;
    return field;
}

bool write_aside(const char *path, const char *data, size_t size)
{
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
