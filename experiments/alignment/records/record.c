#include "record.h"

#include <stdlib.h>
#include <string.h>

static int by_number(const Record *left, const Record *right)
{
    return (left->number > right->number) - (left->number < right->number);
}

static int by_name(const Record *left, const Record *right)
{
    int order = strcmp(left->name, right->name);
    return order ? order : by_number(left, right);
}

static int by_city(const Record *left, const Record *right)
{
    int order = strcmp(left->city, right->city);
    return order ? order : by_name(left, right);
}

static int by_phone(const Record *left, const Record *right)
{
    int order = strcmp(left->phone, right->phone);
    return order ? order : by_number(left, right);
}

static int by_balance(const Record *left, const Record *right)
{
    int order = (left->balance > right->balance) - (left->balance < right->balance);
    return order ? order : by_number(left, right);
}

static const struct {
    const char *word;
    Compare *compare;
} keys[KEY_COUNT] = {
    [KEY_NUMBER] = {"number", by_number}, [KEY_NAME] = {"name", by_name},          [KEY_CITY] = {"city", by_city},
    [KEY_PHONE] = {"phone", by_phone},    [KEY_BALANCE] = {"balance", by_balance},
};

Compare *record_compare(Key key) { return keys[key].compare; }

bool key_parse(const char *word, Key *key)
{
    for (Key candidate = 0; candidate < KEY_COUNT; candidate++) {
        if (strcmp(word, keys[candidate].word) == 0) {
            *key = candidate;
            return true;
        }
    }
    return false;
}

/* Copies one field up to its comma; returns what follows the comma, or NULL. */
static const char *take_field(const char *text, char *field, size_t size)
{
    const char *comma = strchr(text, ',');
    if (!comma || (size_t)(comma - text) >= size)
        return NULL;
    size_t length = (size_t)(comma - text);
    memcpy(field, text, length);
    memset(field + length, 0, size - length);
    return comma + 1;
}

bool record_parse(const char *line, Record *record)
{
    char *end;
    record->number = (uint32_t)strtoul(line, &end, 10);
    if (end == line || *end != ',')
        return false;
    const char *next = take_field(end + 1, record->name, NAME_SIZE);
    next = next ? take_field(next, record->city, CITY_SIZE) : NULL;
    next = next ? take_field(next, record->phone, PHONE_SIZE) : NULL;
    if (!next)
        return false;
    record->balance = (int32_t)strtol(next, &end, 10);
    return end != next && *end == '\0';
}

static char *put_text(char *place, const char *text)
{
    while (*text)
        *place++ = *text++;
    *place++ = ',';
    return place;
}

static char *put_number(char *place, int64_t value)
{
    char digits[20];
    int count = 0;
    uint64_t magnitude = value < 0 ? (uint64_t)-value : (uint64_t)value;
    do
        digits[count++] = (char)('0' + magnitude % 10);
    while (magnitude /= 10);
    if (value < 0)
        *place++ = '-';
    while (count)
        *place++ = digits[--count];
    return place;
}

size_t record_format(const Record *record, char *line)
{
    char *place = put_number(line, record->number);
    *place++ = ',';
    place = put_text(place, record->name);
    place = put_text(place, record->city);
    place = put_text(place, record->phone);
    place = put_number(place, record->balance);
    *place++ = '\n';
    return (size_t)(place - line);
}
