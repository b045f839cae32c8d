#include "value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SYMBOLS = 1 << 14, HASH_PLACES = 1 << 16 };

static char *names[MOST_SYMBOLS];
static int symbol_count;
static int places[HASH_PLACES]; /* symbol + 1, or 0 */

static unsigned hash_of(const char *word)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    while (*word)
        hash = (hash ^ (unsigned char)*word++) * 16777619u;
    return hash % HASH_PLACES;
}

static int symbol_of(const char *word)
{
    unsigned place = hash_of(word);
    while (places[place] && strcmp(names[places[place] - 1], word) != 0)
        place = (place + 1) % HASH_PLACES;
    if (!places[place]) {
        char *name = symbol_count < MOST_SYMBOLS ? strdup(word) : NULL;
        if (!name) {
            fputs("rules: too many symbols\n", stderr);
            exit(EXIT_FAILURE);
        }
        names[symbol_count++] = name;
        places[place] = symbol_count;
    }
    return places[place] - 1;
}

Value value_of_word(const char *word)
{
    char *end;
    int64_t number = strtoll(word, &end, 10);
    if (end != word && *end == '\0')
        return value_of_number(number);
    return (Value)symbol_of(word) * 2 + 1;
}

void value_print(Value value, FILE *out)
{
    if (value & 1)
        fputs(names[value / 2], out);
    else
        fprintf(out, "%" PRId64, value_number(value));
}
