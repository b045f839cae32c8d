/* Values: whole numbers and symbols, told apart by their lowest bit, so that equal values are equal numbers. */
#ifndef VALUE_H
#define VALUE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef int64_t Value;

static inline Value value_of_number(int64_t number) { return number * 2; }
static inline int64_t value_number(Value value) { return value / 2; }

/* The number that a word stands for, or its symbol. */
Value value_of_word(const char *word);

void value_print(Value value, FILE *out);

#endif
