/* C and C++ text, token by token, before preprocessing. */
#include "launcher.h"

const char *spliced(const char *at, const char *end)
{
    if (at >= end || *at != '\\')
        return NULL;
    for (at++; at < end && (is_blank(*at) || *at == '\r'); at++)
        ;
    return at < end && *at == '\n' ? at + 1 : NULL;
}

/* Return the position of the line break that ends a line, including spliced lines. */
static const char *line_end(const char *at, const char *end)
{
    for (const char *behind; at < end && *at != '\n'; at = behind ? behind : at + 1)
        behind = spliced(at, end);
    return at;
}

static const char *after_literal(const char *at, const char *end)
{
    char quote = *at++;
    while (at < end && *at != quote && *at != '\n') {
        const char *behind = spliced(at, end);
        at = behind ? behind : *at == '\\' && at + 1 < end && at[1] != '\n' ? at + 2 : at + 1;
    }
    return at < end && *at == quote ? at + 1 : at;
}

static const char *after_raw_literal(const char *at, const char *end)
{
    const char *fence = at + 1, *open = fence;
    while (open < end && *open != '(' && *open != '"' && *open != '\n')
        open++;
    size_t size = (size_t)(open - fence);
    for (at = open; at + size + 1 < end; at++)
        if (*at == ')' && memcmp(at + 1, fence, size) == 0 && at[size + 1] == '"')
            return at + size + 2;
    return end;
}

static const char *after_number(const char *at, const char *end)
{
    for (at++; at < end; at++) {
        bool exponent = (*at == '+' || *at == '-') && strchr("eEpP", at[-1]);
        if (!is_word(*at) && *at != '.' && !exponent && !(*at == '\'' && at + 1 < end && is_word(at[1])))
            break;
    }
    return at;
}

static const char *after_blanks(struct cursor *cursor)
{
    const char *at = cursor->at, *end = cursor->end;
    while (at < end) {
        const char *behind = spliced(at, end);
        if (behind) {
            at = behind;
        } else if (is_blank(*at) || *at == '\r') {
            at++;
        } else if (*at == '\n' && !cursor->in_directive) {
            cursor->line_start = true;
            at++;
        } else if (*at == '/' && at + 1 < end && at[1] == '*') {
            const char *close = at + 2;
            while (close + 1 < end && (*close != '*' || close[1] != '/'))
                close++;
            at = close + 1 < end ? close + 2 : end;
        } else if (*at == '/' && at + 1 < end && at[1] == '/') {
            at = line_end(at, end);
        } else {
            break;
        }
    }
    return at;
}

static const char *directive_end(const char *at, const char *end)
{
    struct cursor cursor = {.at = at, .end = end, .in_directive = true};
    while (next_token(&cursor).kind != END)
        ;
    return cursor.at;
}

struct token next_token(struct cursor *cursor)
{
    const char *end = cursor->end, *at = after_blanks(cursor), *start = at;
    struct token token = {.kind = SIGN, .start = start};
    bool first = cursor->line_start;
    cursor->line_start = false;
    if (at >= end || *at == '\n') {
        token.kind = END;
    } else if (*at == '#' && first && !cursor->in_directive) {
        token.kind = DIRECTIVE;
        at = directive_end(at + 1, end);
    } else if (is_word_start(*at)) {
        token.kind = WORD;
        while (at < end && is_word(*at))
            at++;
        if (at < end && *at == '"' && at[-1] == 'R' && at - start <= 3) {
            token.kind = RAW_LITERAL;
            at = after_raw_literal(at, end);
        }
    } else if ((unsigned char)(*at - '0') < 10 || (*at == '.' && at + 1 < end && (unsigned char)(at[1] - '0') < 10)) {
        token.kind = NUMBER;
        at = after_number(at, end);
    } else if (*at == '"' || *at == '\'') {
        token.kind = LITERAL;
        at = after_literal(at, end);
    } else {
        at++;
    }
    token.size = (size_t)(at - start);
    cursor->at = at;
    return token;
}

struct token word_at(const char *at)
{
    struct token word = {.kind = WORD, .start = at, .size = 0};
    while (is_word(at[word.size]))
        word.size++;
    return word;
}

struct cursor after_name(const struct tree *tree, const struct define *define, bool *takes)
{
    const struct file *file = &tree->files.items[define->file];
    struct cursor cursor = {.at = define->name.start + define->name.size,
                            .end = file->data + file->size,
                            .in_directive = true};
    for (const char *behind = cursor.at; behind; behind = spliced(cursor.at, cursor.end))
        cursor.at = behind;
    *takes = *cursor.at == '(';
    return cursor;
}

bool is_among(const words_t *words, struct token word)
{
    for (size_t index = 0; index < words->count; index++)
        if (equals(word, words->items[index]))
            return true;
    return false;
}
