/* Reads forms: words and lists in parentheses. `;` begins a comment. */
#ifndef READER_H
#define READER_H

#include <stdio.h>

enum { MOST_FORMS = 512, TEXT_SIZE = 8192 };

typedef struct Form {
    const char *word;   /* NULL: a list */
    struct Form *first; /* of a list */
    struct Form *next;  /* behind this one in the same list */
} Form;

typedef struct {
    FILE *in;
    unsigned line;
    const char *wrong; /* set once something is */
    int form_count, text_used;
    Form forms[MOST_FORMS];
    char text[TEXT_SIZE];
} Reader;

/* The next form, until the next call; NULL at the end of the file, or when `wrong` is set. */
Form *reader_next(Reader *reader);

#endif
