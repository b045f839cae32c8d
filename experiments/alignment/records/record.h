/* One record of the address book, and the keys by which records are compared.
 *
 * As text, a record is one line: number,name,city,phone,balance.
 */
#ifndef RECORD_H
#define RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NAME_SIZE = 32, CITY_SIZE = 24, PHONE_SIZE = 16, LINE_SIZE = 128 };

typedef struct {
    uint32_t number;
    int32_t balance; /* in cents */
    char name[NAME_SIZE];
    char city[CITY_SIZE];
    char phone[PHONE_SIZE];
} Record;

typedef enum { KEY_NUMBER, KEY_NAME, KEY_CITY, KEY_PHONE, KEY_BALANCE, KEY_COUNT } Key;

/* Negative, zero or positive, as strcmp(3). Records that agree in the key are ordered by their numbers, so that no two
 * are equal. */
typedef int Compare(const Record *left, const Record *right);

Compare *record_compare(Key key);

bool key_parse(const char *word, Key *key);

/* Reads one line, without its newline. False when it is not a record, or a field is too long. */
bool record_parse(const char *line, Record *record);

/* Writes one line of text with its newline into `line`, of LINE_SIZE bytes; returns its length. */
size_t record_format(const Record *record, char *line);

#endif
