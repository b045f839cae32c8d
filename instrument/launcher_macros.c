/* The macros of all files that were read: what they may do to the text around them, and whether ## in them may make a word.
 *
 * A macro that is defined more than once is taken to be all its definitions at once; #undef and #if do not matter.
 */
#include "launcher.h"

enum { REACHED = 256 }; /* stands in the user's own text, or in the body of one that does */
enum { HANDED_ON = UNBALANCED | ROUGH | NO_TYPE | NO_TRAILER };

struct macro {
    const char *name;
    size_t size;
    int bits;
};

struct mention {
    uint32_t from, to;
    int handed_on; /* bits of `to` that `from` has too */
};

struct macros {
    LIST(struct macro) items;
    LIST(struct mention) mentions;
    uint32_t *places; /* open-addressed: index into items + 1 */
    size_t room;
};

static const char *const TRAILERS[] = {
    "__attribute__", "__attribute", "__asm__", "asm", "__asm", "noexcept", "throw", "__extension__", NULL};

bool is_trailer(struct token word) {
    for (const char *const *name = TRAILERS; *name; name++)
        if (equals(word, *name))
            return true;
    return false;
}

static uint32_t *place_of(const struct macros *macros, const char *name, size_t size) {
    uint64_t hash = size;
    for (size_t index = 0; index < size; index++)
        hash = (hash ^ (unsigned char)name[index]) * 0x100000001b3;
    for (size_t place = hash ^ hash >> 29;; place++) {
        uint32_t *found = &macros->places[place & (macros->room - 1)];
        const struct macro *macro = *found ? &macros->items.items[*found - 1] : NULL;
        if (macro == NULL || (macro->size == size && memcmp(macro->name, name, size) == 0))
            return found;
    }
}

static struct macro *macro_of(const struct macros *macros, struct token word) {
    uint32_t *place = place_of(macros, word.start, word.size);
    return *place ? &macros->items.items[*place - 1] : NULL;
}

int macro_bits(const struct macros *macros, struct token word) {
    const struct macro *macro = macro_of(macros, word);
    return macro ? macro->bits : -1;
}

/* Read one definition: what its body does, and which macros it mentions. */
static void read_definition(struct macros *macros, const struct tree *tree, const struct define *define) {
    const struct file *file = &tree->files.items[define->file];
    struct cursor cursor = {.at = define->name, .end = file->data + file->size, .in_directive = true};
    struct token token = next_token(&cursor), parameters[64];
    struct macro *macro = macro_of(macros, token);
    uint32_t own = (uint32_t)(macro - macros->items.items);
    size_t count = 0;
    bool takes = *cursor.at == '(' && cursor.at < cursor.end;
    if (takes) {
        while ((token = next_token(&cursor)).kind != END && *token.start != ')')
            if (token.kind == WORD && count < 64)
                parameters[count++] = token;
        macro->bits |= FUNCTION_LIKE | NO_TYPE | (count == 64 ? HANDED_ON : 0);
    }
    int round = 0, square = 0;
    size_t tokens = 0;
    bool words_only = true, ends_with_argument = false, passing = false;
    for (; (token = next_token(&cursor)).kind != END; tokens++) {
        words_only &= token.kind == WORD && !ends_with_argument;
        passing = tokens == 1 && round == 1 && token.kind == SIGN && *token.start == ')';
        char sign = token.kind == SIGN ? *token.start : 0;
        round += (sign == '(') - (sign == ')');
        square += (sign == '[') - (sign == ']');
        if (round < 0)
            macro->bits |= UNBALANCED;
        if (square < 0 || token.kind == RAW_LITERAL || (sign && strchr("{}=;?:#%", sign)))
            macro->bits |= ROUGH;
        if (token.kind != WORD) {
            macro->bits |= sign == '*' ? 0 : NO_TYPE;
            macro->bits |= round == 0 && sign != ')' ? NO_TRAILER : 0;
            continue;
        }
        bool parameter = equals(token, "__VA_ARGS__") || equals(token, "__VA_OPT__");
        for (size_t index = 0; index < count; index++)
            parameter |= parameters[index].size == token.size && !memcmp(parameters[index].start, token.start, token.size);
        ends_with_argument |= parameter;
        uint32_t *other = place_of(macros, token.start, token.size);
        if (!parameter && *other)
            APPEND(&macros->mentions, (struct mention){own, *other - 1, round ? HANDED_ON & ~NO_TRAILER : HANDED_ON});
        else if (round == 0 && (parameter || !is_trailer(token)))
            macro->bits |= NO_TRAILER;
    }
    macro->bits |= (round ? UNBALANCED : 0) | (square ? ROUGH : 0) | (tokens ? 0 : NO_TYPE);
    macro->bits |= macro->bits & UNBALANCED ? ROUGH : 0;
    macro->bits |= takes || tokens != 1 || !words_only ? NO_RENAMING : 0;
    macro->bits |= !takes || !words_only || !ends_with_argument ? NO_WRAPPING : 0;
    passing |= words_only && ends_with_argument && tokens == 1;
    macro->bits |= !takes || count != 1 || !passing ? NO_PASSING : 0;
}

/* Mark the macros that the user's own text mentions; directives expand nothing that could become a site. */
static void mark_mentioned(struct macros *macros, const struct file *file) {
    struct cursor cursor = {.at = file->data, .end = file->data + file->size, .line_start = true};
    for (struct token token; (token = next_token(&cursor)).kind != END;) {
        struct cursor inner = {.at = token.start, .end = token.start + token.size};
        if (token.kind == RAW_LITERAL) /* in a language without them it is not one */
            for (const char *at = inner.at; at < inner.end; at++) {
                const char *word = at;
                while (at < inner.end && is_word(*at))
                    at++;
                struct macro *macro = at > word ? macro_of(macros, (struct token){WORD, word, (size_t)(at - word)}) : NULL;
                if (macro)
                    macro->bits |= REACHED;
            }
        struct macro *macro = token.kind == WORD ? macro_of(macros, token) : NULL;
        if (macro)
            macro->bits |= REACHED;
    }
}

struct macros *read_macros(const struct tree *tree) {
    struct macros *macros = fresh(sizeof *macros);
    for (macros->room = 64; macros->room < 3 * tree->defines.count; macros->room *= 2)
        ;
    macros->places = fresh(macros->room * sizeof *macros->places);
    for (size_t index = 0; index < tree->defines.count; index++) {
        const char *name = tree->defines.items[index].name, *end = name;
        while (is_word(*end))
            end++;
        uint32_t *place = place_of(macros, name, (size_t)(end - name));
        if (*place == 0) {
            APPEND(&macros->items, (struct macro){name, (size_t)(end - name), 0});
            *place = (uint32_t)macros->items.count;
        }
    }
    for (size_t index = 0; index < tree->defines.count; index++)
        read_definition(macros, tree, &tree->defines.items[index]);
    for (size_t index = 0; index < tree->files.count; index++)
        if (!tree->files.items[index].trusted)
            mark_mentioned(macros, &tree->files.items[index]);
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t index = 0; index < macros->mentions.count; index++) {
            struct macro *from = &macros->items.items[macros->mentions.items[index].from];
            struct macro *to = &macros->items.items[macros->mentions.items[index].to];
            int upward = from->bits | (to->bits & macros->mentions.items[index].handed_on), downward = to->bits | (from->bits & REACHED);
            changed |= upward != from->bits || downward != to->bits;
            from->bits = upward, to->bits = downward;
        }
    }
    return macros;
}

static bool ends_alike(const char *piece, size_t piece_size, const char *text, size_t size) {
    size_t common = piece_size < size ? piece_size : size;
    return memcmp(piece + piece_size - common, text + size - common, common) == 0;
}

static bool begins_alike(const char *piece, size_t piece_size, const char *text, size_t size) {
    return memcmp(piece, text, piece_size < size ? piece_size : size) == 0;
}

/* Tell whether ## may put the word together, or a name that holds it. At some ## the word's first part must end what stands left
 * of it (or be ended by it), and its rest begin what stands right of it. Macros that only the system's own headers use make no
 * names of the user's. */
bool may_paste(const struct macros *macros, const struct tree *tree, const char *word) {
    size_t size = strlen(word);
    for (size_t index = 0; index < tree->pastes.count; index++) {
        const struct paste *paste = &tree->pastes.items[index];
        const struct macro *macro = macro_of(macros, (struct token){WORD, paste->macro, paste->macro_size});
        if (macro && !(macro->bits & REACHED))
            continue;
        for (size_t cut = 1; cut < size; cut++)
            if ((!paste->left || ends_alike(paste->left, paste->left_size, word, cut)) &&
                (!paste->right || begins_alike(paste->right, paste->right_size, word + cut, size - cut)))
                return true;
    }
    return false;
}
