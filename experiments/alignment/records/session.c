#include "session.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "sort.h"

enum { COMMAND_SIZE = LINE_SIZE + 16 };

/* Reads a line and takes its newline away. False at the end of the file. */
static bool read_line(FILE *in, char *line, size_t size, unsigned *number)
{
    if (!fgets(line, (int)size, in))
        return false;
    ++*number;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

SessionStatus session_load(FILE *in, Table *table, unsigned *line)
{
    char text[LINE_SIZE];
    for (*line = 0; read_line(in, text, sizeof text, line);) {
        Record record;
        if (!record_parse(text, &record))
            return SESSION_SYNTAX;
        if (!table_add(table, &record))
            return SESSION_MEMORY;
    }
    return SESSION_OK;
}

static SessionStatus add_record(Table *table, const char *text)
{
    Record record;
    if (!record_parse(text, &record))
        return SESSION_SYNTAX;
    return table_add(table, &record) ? SESSION_OK : SESSION_MEMORY;
}

static SessionStatus delete_record(Table *table, const char *text)
{
    char *end;
    uint32_t number = (uint32_t)strtoul(text, &end, 10);
    if (end == text || *end != '\0')
        return SESSION_SYNTAX;
    size_t position = table_position(table, number);
    if (position == table->count)
        return SESSION_ABSENT;
    table_delete(table, position);
    return SESSION_OK;
}

static SessionStatus find_name(const Table *table, const char *name, FILE *out)
{
    if (!table->sorted || table->key != KEY_NAME)
        return SESSION_UNSORTED;
    Record wanted = {.number = 0};
    if (strlen(name) >= sizeof wanted.name)
        return SESSION_SYNTAX;
    strcpy(wanted.name, name);
    size_t first = table_lower_bound(table, &wanted);
    size_t end = first;
    while (end < table->count && strcmp(table->order[end]->name, name) == 0)
        end++;
    fprintf(out, "%s: %zu\n", name, end - first);
    return SESSION_OK;
}

static SessionStatus sort_by(Table *table, const char *word)
{
    Key key;
    if (!key_parse(word, &key))
        return SESSION_SYNTAX;
    sort_table(table, key);
    return SESSION_OK;
}

static SessionStatus carry_out(const char *verb, const char *rest, Table *table, FILE *out)
{
    if (strcmp(verb, "add") == 0)
        return add_record(table, rest);
    if (strcmp(verb, "delete") == 0)
        return delete_record(table, rest);
    if (strcmp(verb, "find") == 0)
        return find_name(table, rest, out);
    if (strcmp(verb, "sort") == 0)
        return sort_by(table, rest);
    if (*rest != '\0')
        return SESSION_SYNTAX;
    if (strcmp(verb, "compact") == 0)
        return table_compact(table) ? SESSION_OK : SESSION_MEMORY;
    if (strcmp(verb, "listing") == 0)
        report_listing(table, out);
    else if (strcmp(verb, "totals") == 0)
        report_totals(table, out);
    else if (strcmp(verb, "write") == 0)
        report_write(table, out);
    else
        return SESSION_SYNTAX;
    return SESSION_OK;
}

SessionStatus session_run(FILE *in, Table *table, FILE *out, unsigned *line)
{
    char text[COMMAND_SIZE];
    SessionStatus status = SESSION_OK;
    for (*line = 0; status == SESSION_OK && read_line(in, text, sizeof text, line);) {
        char *space = strchr(text, ' ');
        char *rest = space ? space + 1 : text + strlen(text);
        if (space)
            *space = '\0';
        status = carry_out(text, rest, table, out);
    }
    return status;
}
