#include "reader.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static int next_visible(Reader *reader)
{
    for (;;) {
        int letter = getc_unlocked(reader->in);
        if (letter == ';') {
            while (letter != '\n' && letter != EOF)
                letter = getc_unlocked(reader->in);
        }
        if (letter == '\n')
            reader->line++;
        else if (letter == EOF || !isspace(letter))
            return letter;
    }
}

static Form *new_form(Reader *reader)
{
    if (reader->form_count == MOST_FORMS) {
        reader->wrong = "the form is too long";
        return NULL;
    }
    Form *form = &reader->forms[reader->form_count++];
    *form = (Form){0};
    return form;
}

static Form *read_word(Reader *reader, int letter)
{
    Form *form = new_form(reader);
    if (!form)
        return NULL;
    form->word = reader->text + reader->text_used;
    while (letter != EOF && !isspace(letter) && !strchr("();", letter)) {
        if (reader->text_used + 1 == TEXT_SIZE) {
            reader->wrong = "the form is too long";
            return NULL;
        }
        reader->text[reader->text_used++] = (char)letter;
        letter = getc_unlocked(reader->in);
    }
    ungetc(letter, reader->in);
    reader->text[reader->text_used++] = '\0';
    return form;
}

static Form *read_form(Reader *reader, int letter);

static Form *read_list(Reader *reader)
{
    Form *list = new_form(reader);
    Form **place = list ? &list->first : NULL;
    for (int letter = 0; list && (letter = next_visible(reader)) != ')';) {
        if (letter == EOF)
            reader->wrong = "a parenthesis is not closed";
        *place = letter == EOF ? NULL : read_form(reader, letter);
        if (!*place)
            return NULL;
        place = &(*place)->next;
    }
    return list;
}

static Form *read_form(Reader *reader, int letter)
{
    if (letter == '(')
        return read_list(reader);
    if (letter == ')') {
        reader->wrong = "a parenthesis is closed that was not opened";
        return NULL;
    }
    return read_word(reader, letter);
}

Form *reader_next(Reader *reader)
{
    reader->form_count = reader->text_used = 0;
    int letter = next_visible(reader);
    return letter == EOF ? NULL : read_form(reader, letter);
}
