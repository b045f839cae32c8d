/* Whether a name is more than declared or mentioned anywhere: `_USES` in prefilter.py, for text before preprocessing,
 * with the same tables.
 *
 * The tokens around an occurrence must be those that the compiler will see around it. They are, unless they include a
 * macro, a directive, or the edge of a possible macro argument; then the answer is "perhaps".
 */
#define _GNU_SOURCE
#include "launcher.h"

struct text {
    const struct configuration *configuration;
    const struct macros *macros;
    LIST(struct token) tokens;
    LIST(bool) argument; /* the token is in parentheses that may belong to a macro */
};

static bool is_sign(struct token token, char sign) { return token.kind == SIGN && *token.start == sign; }

static bool is_conditional(struct token directive)
{
    struct cursor cursor = {.at = directive.start + 1, .end = directive.start + directive.size, .in_directive = true};
    struct token name = next_token(&cursor);
    return name.kind != WORD || !(equals(name, "define") || equals(name, "undef") || equals(name, "pragma") ||
                                  equals(name, "error") || equals(name, "warning") || equals(name, "ident"));
}

/* Tell whether a directive gives the name no meaning; #define and #pragma may give it one. */
static bool is_harmless(struct token directive, const char *name, size_t size)
{
    struct cursor cursor = {.at = directive.start + 1, .end = directive.start + directive.size, .in_directive = true};
    struct token token = next_token(&cursor);
    bool defines = equals(token, "define");
    if (!defines && !equals(token, "pragma"))
        return true;
    if (defines) /* skip the defined name: if it is the name itself, the name does not remain in the text */
        next_token(&cursor);
    while ((token = next_token(&cursor)).kind != END)
        if (token.kind == WORD && token.size == size && memcmp(token.start, name, size) == 0)
            return false;
    return true;
}

/* Read a file's tokens; false if its parentheses cannot be matched. */
static bool read_tokens(struct text *text, const struct file *file)
{
    struct cursor cursor = {.at = file->data, .end = file->data + file->size, .line_start = true};
    LIST(bool) open = {.count = 0};
    size_t arguments = 0;
    bool closed_argument = false;
    struct token token, last = {.kind = END}; /* END: unknown, perhaps a macro's name */
    text->tokens.count = text->argument.count = 0;
    for (; (token = next_token(&cursor)).kind != END; last = token.kind == DIRECTIVE ? last : token) {
        if (token.kind == RAW_LITERAL || (token.kind == DIRECTIVE && open.count && is_conditional(token)))
            return false;
        if (token.kind == DIRECTIVE && is_conditional(token))
            last.kind = END;
        int bits = token.kind == WORD ? macro_bits(text->macros, token) : -1;
        if (bits >= 0 && bits & UNBALANCED)
            return false;
        if (is_sign(token, ')')) {
            if (open.count == 0)
                return false;
            closed_argument = open.items[--open.count];
            arguments -= closed_argument;
        }
        APPEND(&text->tokens, token);
        APPEND(&text->argument, arguments > 0);
        if (is_sign(token, '(')) {
            bool after_macro = last.kind == WORD && macro_bits(text->macros, last) >= 0;
            bool argument = last.kind == END || after_macro || (is_sign(last, ')') && closed_argument);
            APPEND(&open, argument);
            arguments += argument;
        }
    }
    bool closed = open.count == 0;
    for (int behind = 0; behind < 4; behind++)
        APPEND(&text->tokens, (struct token){.kind = END, .start = ""}), APPEND(&text->argument, true);
    return closed;
}

/* Return the index after the bracket that closes the bracket at `index`; 0 if the text between may change. */
static size_t after_group(const struct text *text, size_t index)
{
    bool calls = false, square = false;
    for (int depth = 0;; index++) {
        struct token token = text->tokens.items[index];
        int bits = token.kind == WORD ? macro_bits(text->macros, token) : -1;
        if (token.kind == END || token.kind == DIRECTIVE || is_sign(token, '{') || is_sign(token, '}') ||
            (bits >= 0 && bits & ROUGH))
            return 0;
        calls |= bits >= 0 && bits & FUNCTION_LIKE;
        square |= is_sign(token, '[');
        if (calls && square)
            return 0; /* a macro may drop one of its arguments, and a bracket with it */
        depth += is_sign(token, '(') || is_sign(token, '[');
        depth -= is_sign(token, ')') || is_sign(token, ']');
        if (depth == 0)
            return index + 1;
    }
}

/* Tell whether a token is a macro's name, which may become any text. */
static bool is_macro(const struct text *text, struct token token)
{
    return token.kind == WORD && macro_bits(text->macros, token) >= 0;
}

/* Tell whether the comma or parenthesis at `index` may separate or end a macro's arguments. */
static bool is_edge(const struct text *text, size_t index)
{
    struct token token = text->tokens.items[index];
    return token.kind == END || token.kind == DIRECTIVE ||
           ((is_sign(token, ',') || is_sign(token, ')')) && text->argument.items[index - 1]);
}

/* Return the index after attributes, and after macros that expand to attributes; 0 if they may be other text. */
static size_t after_trailers(const struct text *text, size_t index)
{
    while (index && text->tokens.items[index].kind == WORD) {
        struct token word = text->tokens.items[index];
        int bits = macro_bits(text->macros, word);
        if (bits < 0 ? !is_among(&text->configuration->trailers, word) : bits & NO_TRAILER)
            return 0;
        index++;
        if (is_sign(text->tokens.items[index], '('))
            index = after_group(text, index);
    }
    return index;
}

/* Tell whether the word at `index` is a macro that takes arguments and has none of the bits `without`. */
static bool is_kind(const struct text *text, size_t index, int without)
{
    struct token word = text->tokens.items[index];
    int bits = word.kind == WORD ? macro_bits(text->macros, word) : -1;
    return bits >= 0 && bits & FUNCTION_LIKE && !(bits & without);
}

/* Tell whether the name at `index` is alone in parentheses after a macro that only adds words before it: BZ_API(f). */
static bool is_wrapped(const struct text *text, size_t index)
{
    return index >= 2 && is_sign(text->tokens.items[index - 1], '(') && is_sign(text->tokens.items[index + 1], ')') &&
           is_kind(text, index - 2, NO_WRAPPING | ROUGH);
}

/* Return the index after a declaration's parameters, which a macro may enclose: (int), OF((int)); 0 if uncertain. */
static size_t after_parameters(const struct text *text, size_t index)
{
    if (!is_kind(text, index, NO_PASSING | ROUGH))
        return after_group(text, index);
    if (!is_sign(text->tokens.items[index + 1], '(') || !is_sign(text->tokens.items[index + 2], '('))
        return 0;
    size_t behind = after_group(text, index + 2);
    return behind && is_sign(text->tokens.items[behind], ')') ? behind + 1 : 0;
}

static bool may_define(const struct text *text, size_t index)
{
    index += is_wrapped(text, index);
    struct token next = text->tokens.items[index + 1], then = text->tokens.items[index + 2];
    bool passed = is_kind(text, index + 1, NO_PASSING | ROUGH);
    if ((next.kind == WORD && !passed) || is_edge(text, index + 1) || is_sign(next, '<'))
        return true;
    if (is_sign(next, ')') || is_sign(next, '='))
        return then.kind == END || then.kind == DIRECTIVE || is_macro(text, then) ||
               is_sign(then, is_sign(next, ')') ? '(' : '[');
    if (!is_sign(next, '(') && !passed)
        return false;
    size_t behind = after_trailers(text, after_parameters(text, index + 1));
    if (behind == 0)
        return true;
    next = text->tokens.items[behind];
    if (next.kind != SIGN || is_edge(text, behind) || strchr("{:[#@~\\`", *next.start))
        return true;
    return (*next.start == '<' && next.start[1] == '%') || (*next.start == '-' && next.start[1] == '>');
}

/* Tell whether a declaration declares the name at `index`, judging by the words and * before the name. */
static bool is_declared(const struct text *text, size_t index)
{
    struct token before = index ? text->tokens.items[index - 1] : (struct token){.kind = END};
    if (before.kind == WORD && !is_macro(text, before) && !is_among(&text->configuration->before_expression, before))
        return true;
    while (index--) {
        struct token token = text->tokens.items[index];
        if (token.kind == WORD) {
            int bits = macro_bits(text->macros, token);
            if (bits < 0 && is_among(&text->configuration->declaring, token))
                return true;
            if (is_among(&text->configuration->before_expression, token) || (bits >= 0 && bits & ROUGH))
                return false;
        } else if (!is_sign(token, '*') && !is_sign(token, '&')) {
            return false;
        }
    }
    return false;
}

static bool may_call(const struct text *text, size_t index)
{
    struct token next = text->tokens.items[index + 1];
    if (is_declared(text, is_wrapped(text, index) ? index - 1 : index))
        return false;
    bool chosen = index && is_sign(text->tokens.items[index - 1], ':') && is_sign(next, ','); /* by _Generic */
    return chosen || is_edge(text, index + 1) || is_macro(text, next) || is_sign(next, '(') || is_sign(next, ')') ||
           is_sign(next, '<');
}

static bool may_write(const struct text *text, size_t index)
{
    struct token before = index ? text->tokens.items[index - 1] : (struct token){.kind = END};
    int bits = before.kind == WORD ? macro_bits(text->macros, before) : -1;
    bool declared = before.kind == WORD ? bits < 0 || !(bits & NO_TYPE) : is_sign(before, '*') || is_sign(before, '&');
    size_t behind = index + 1;
    while (declared && behind && is_sign(text->tokens.items[behind], '[')) {
        const char *start = text->tokens.items[behind].start;
        behind = after_group(text, behind);
        if (behind && memchr(start, '\n', (size_t)(text->tokens.items[behind - 1].start - start)))
            return true;
    }
    if (!declared || behind == 0 || is_edge(text, behind) || text->tokens.items[behind].kind != SIGN)
        return true;
    return strchr(";,):", *text->tokens.items[behind].start) == NULL || text->tokens.items[behind].start[1] == ':';
}

bool is_only_mentioned(const struct configuration *configuration, const struct macros *macros, const struct tree *tree,
                       const struct need *need)
{
    struct text text = {.configuration = configuration, .macros = macros};
    size_t size = strlen(need->used);
    int bits = macro_bits(macros, (struct token){WORD, need->used, size});
    if (bits >= 0 && bits & (NO_RENAMING | ROUGH))
        return false;
    for (size_t index = 0; index < tree->files.count; index++) {
        const struct file *file = &tree->files.items[index];
        if (!memmem(file->data, file->size, need->used, size))
            continue;
        if (!read_tokens(&text, file))
            return false;
        for (size_t place = 0; place < text.tokens.count; place++) {
            struct token token = text.tokens.items[place];
            if (token.kind == DIRECTIVE && !is_harmless(token, need->used, size))
                return false;
            if (token.kind != WORD || token.size != size || memcmp(token.start, need->used, size) != 0)
                continue;
            if (need->use == 'd'   ? may_define(&text, place)
                : need->use == 'c' ? may_call(&text, place)
                                   : may_write(&text, place))
                return false;
        }
    }
    return true;
}
