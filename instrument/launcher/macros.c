/* The macros of all files that were read: how they may change the text around them, and whether ## in them may form a
 * word.
 *
 * A macro with several definitions has the properties of all of them at once; #undef and #if do not matter.
 */
#define _GNU_SOURCE
#include "launcher.h"

enum { REACHED = 256 }; /* used in the user's text, or in the body of a macro that is */
enum { HANDED_ON = UNBALANCED | ROUGH | NO_TYPE | NO_TRAILER };

struct mention {
    uint32_t from, to;
    int handed_on; /* bits of `to` that `from` gets, too */
};

/* A ## between two words; NULL: any text is possible on that side. */
struct paste {
    uint32_t macro;
    const char *left, *right;
    size_t left_size, right_size;
};

struct macros {
    struct set names; /* each with its index in `bits` */
    LIST(int) bits;
    LIST(struct mention) mentions;
    LIST(struct paste) pastes;
};

typedef LIST(struct token) parameters_t;

static int *bits_of(const struct macros *macros, struct token word)
{
    const struct entry *entry = look_up(&macros->names, word.start, word.size);
    return entry ? &macros->bits.items[entry->value] : NULL;
}

int macro_bits(const struct macros *macros, struct token word)
{
    const int *bits = bits_of(macros, word);
    return bits ? *bits : -1;
}

static bool is_parameter(const parameters_t *parameters, struct token word)
{
    for (size_t index = 0; index < parameters->count; index++)
        if (parameters->items[index].size == word.size &&
            !memcmp(parameters->items[index].start, word.start, word.size))
            return true;
    return equals(word, "__VA_ARGS__") || equals(word, "__VA_OPT__");
}

/* Read the token on one side of a ##; false if ## cannot form a word with it. A closing parenthesis ends __VA_OPT__(…),
 * which may be any text. */
static bool read_side(const parameters_t *parameters, struct token token, const char **text, size_t *size)
{
    bool open = token.kind == RAW_LITERAL || (token.kind == SIGN && *token.start == ')');
    if (!open && token.kind != WORD && token.kind != NUMBER)
        return false;
    if (!open && !is_parameter(parameters, token))
        *text = token.start, *size = token.size;
    return true;
}

/* Record the two sides of each ## in a body. A side that no word contains forms no word, as in `, ## __VA_ARGS__`. */
static void read_pastes(struct macros *macros, uint32_t macro, struct cursor body, const parameters_t *parameters)
{
    struct token left = {.kind = END}, token;
    for (bool pastes = false; (token = next_token(&body)).kind != END;) {
        if (token.kind == SIGN && *token.start == '#' && *body.at == '#') {
            body.at++;
            pastes = true;
            continue;
        }
        struct paste paste = {.macro = macro};
        /* In a language without raw literals, the text of an apparent raw literal may contain ##. */
        bool raw = token.kind == RAW_LITERAL && memmem(token.start, token.size, "##", 2);
        if (raw || (pastes && read_side(parameters, left, &paste.left, &paste.left_size) &&
                    read_side(parameters, token, &paste.right, &paste.right_size)))
            APPEND(&macros->pastes, paste);
        left = token;
        pastes = false;
    }
}

/* Read one definition of the macro `own`: the bits of its body, and the macros that it mentions. */
static void read_definition(struct macros *macros, uint32_t own, const words_t *trailers, const struct tree *tree,
                            const struct define *define)
{
    struct token token;
    bool takes;
    struct cursor cursor = after_name(tree, define, &takes), body;
    int *bits = &macros->bits.items[own];
    parameters_t parameters = {.count = 0};
    if (takes) {
        while ((token = next_token(&cursor)).kind != END && *token.start != ')')
            if (token.kind == WORD)
                APPEND(&parameters, token);
        *bits |= FUNCTION_LIKE | NO_TYPE;
    }
    int round = 0, square = 0;
    size_t tokens = 0;
    bool words_only = true, ends_with_argument = false, passing = false, may_paste = false;
    for (body = cursor; (token = next_token(&cursor)).kind != END; tokens++) {
        words_only &= token.kind == WORD && !ends_with_argument;
        passing = tokens == 1 && round == 1 && token.kind == SIGN && *token.start == ')';
        char sign = token.kind == SIGN ? *token.start : 0;
        round += (sign == '(') - (sign == ')');
        square += (sign == '[') - (sign == ']');
        may_paste |= sign == '#' || token.kind == RAW_LITERAL;
        if (round < 0)
            *bits |= UNBALANCED;
        if (square < 0 || token.kind == RAW_LITERAL || (sign && strchr("{}=;?:#%", sign)))
            *bits |= ROUGH;
        if (token.kind != WORD) {
            *bits |= sign == '*' ? 0 : NO_TYPE;
            *bits |= round == 0 && sign != ')' ? NO_TRAILER : 0;
            continue;
        }
        bool parameter = is_parameter(&parameters, token);
        ends_with_argument |= parameter;
        const struct entry *other = look_up(&macros->names, token.start, token.size);
        if (!parameter && other)
            APPEND(&macros->mentions, (struct mention){own, other->value, round ? HANDED_ON & ~NO_TRAILER : HANDED_ON});
        else if (round == 0 && (parameter || !is_among(trailers, token)))
            *bits |= NO_TRAILER;
    }
    if (may_paste)
        read_pastes(macros, own, body, &parameters);
    *bits |= (round ? UNBALANCED : 0) | (square ? ROUGH : 0) | (tokens ? 0 : NO_TYPE);
    *bits |= *bits & UNBALANCED ? ROUGH : 0;
    *bits |= takes || tokens != 1 || !words_only ? NO_RENAMING : 0;
    *bits |= !takes || !words_only || !ends_with_argument ? NO_WRAPPING : 0;
    passing |= words_only && ends_with_argument && tokens == 1;
    *bits |= !takes || parameters.count != 1 || !passing ? NO_PASSING : 0;
}

/* Mark the macros that the user's text mentions; directives expand nothing that could become a site. */
static void mark_mentioned(struct macros *macros, const struct file *file)
{
    struct cursor cursor = {.at = file->data, .end = file->data + file->size, .line_start = true};
    for (struct token token; (token = next_token(&cursor)).kind != END;) {
        struct cursor inner = {.at = token.start, .end = token.start + token.size};
        if (token.kind == RAW_LITERAL) /* in a language without raw literals, these are tokens */
            for (const char *at = inner.at; at < inner.end; at++) {
                const char *word = at;
                while (at < inner.end && is_word(*at))
                    at++;
                int *bits = at > word ? bits_of(macros, (struct token){WORD, word, (size_t)(at - word)}) : NULL;
                if (bits)
                    *bits |= REACHED;
            }
        int *bits = token.kind == WORD ? bits_of(macros, token) : NULL;
        if (bits)
            *bits |= REACHED;
    }
}

struct macros *read_macros(const struct configuration *configuration, const struct tree *tree)
{
    struct macros *macros = fresh(sizeof *macros);
    uint32_t *own = fresh((tree->defines.count + 1) * sizeof *own);
    for (size_t index = 0; index < tree->defines.count; index++) {
        struct token name = tree->defines.items[index].name;
        own[index] = (uint32_t)macros->bits.count;
        if (add_name(&macros->names, name.start, name.size, own[index]))
            APPEND(&macros->bits, 0);
        else
            own[index] = look_up(&macros->names, name.start, name.size)->value;
    }
    for (size_t index = 0; index < tree->defines.count; index++)
        read_definition(macros, own[index], &configuration->trailers, tree, &tree->defines.items[index]);
    for (size_t index = 0; index < tree->files.count; index++)
        if (!tree->files.items[index].trusted)
            mark_mentioned(macros, &tree->files.items[index]);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t index = 0; index < macros->mentions.count; index++) {
            const struct mention *mention = &macros->mentions.items[index];
            int *from = &macros->bits.items[mention->from], *to = &macros->bits.items[mention->to];
            int upward = *from | (*to & mention->handed_on), downward = *to | (*from & REACHED);
            changed |= upward != *from || downward != *to;
            *from = upward, *to = downward;
        }
    }
    return macros;
}

static bool ends_alike(const char *piece, size_t piece_size, const char *text, size_t size)
{
    size_t common = piece_size < size ? piece_size : size;
    return memcmp(piece + piece_size - common, text + size - common, common) == 0;
}

static bool begins_alike(const char *piece, size_t piece_size, const char *text, size_t size)
{
    return memcmp(piece, text, piece_size < size ? piece_size : size) == 0;
}

/* Tell whether ## may form the word, or a name that contains it. At some ##, the text on the left must end with the
 * word's first part (or this part with the text), and the text on the right must begin with the rest. Macros that only
 * system headers use form no names of the user's. */
bool may_paste(const struct macros *macros, const char *word)
{
    size_t size = strlen(word);
    for (size_t index = 0; index < macros->pastes.count; index++) {
        const struct paste *paste = &macros->pastes.items[index];
        if (!(macros->bits.items[paste->macro] & REACHED))
            continue;
        for (size_t cut = 1; cut < size; cut++)
            if ((!paste->left || ends_alike(paste->left, paste->left_size, word, cut)) &&
                (!paste->right || begins_alike(paste->right, paste->right_size, word + cut, size - cut)))
                return true;
    }
    return false;
}
