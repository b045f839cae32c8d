/* The launcher: stands for the compiler in a build, and decides within milliseconds whether a command needs the Python
 * wrapper.
 *
 *   main.c     decision, log, exec
 *   settings.c what the toolchain and the wrapper wrote for it
 *   command.c  what a command line asks for
 *   files.c    which file an #include means, as gcc and clang find it
 *   index.c    what is known of the system's headers from the sources before
 *   text.c     the source and every file that it may include; which words stand there
 *   tokens.c   C text, token by token
 *   macros.c   the macros of these files: what they can do to the text around them
 *   uses.c     whether a name is anywhere more than declared, or mentioned
 *   memory.c   growing lists, sets of names, whole files
 *
 * It may say "needs Python" wrongly, which costs time; it must never say "cannot hold a site" wrongly, which would lose
 * counts. Memory is never given back: the process ends within milliseconds, by exec.
 */
#ifndef UNPERTURBED_LAUNCHER_H
#define UNPERTURBED_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define LIST(type) \
    struct { \
        type *items; \
        size_t count, room; \
    }
#define APPEND(list, ...) \
    ((list)->items = grown((list)->items, (list)->count, &(list)->room, sizeof *(list)->items), \
     (list)->items[(list)->count++] = (__VA_ARGS__))

enum { OWN_ERROR = 2 };

_Noreturn void fail(const char *what, const char *why);
void *grown(void *items, size_t count, size_t *room, size_t size);
void *fresh(size_t size); /* zeroed */
char *joined(const char *first, size_t first_size, const char *second, size_t second_size);

typedef LIST(const char *) words_t;
typedef LIST(char) bytes_t;

void add_bytes(bytes_t *bytes, const char *data, size_t size);
void add_field(bytes_t *bytes, char letter, const char *value); /* ended by a zero */

/* An open-addressed set of names, each with a number; the names stay where they are. */
struct entry {
    const char *name;
    size_t size;
    uint32_t value;
};

struct set {
    struct entry *items;
    size_t count, room;
};

const struct entry *look_up(const struct set *set, const char *name, size_t size); /* NULL when it is not there */
/* False: it is there already, and stays as it is. */
bool add_name(struct set *set, const char *name, size_t size, uint32_t value);

/* Of a whole file, a zero behind it; NULL if it cannot be read. */
char *content(const char *path, size_t *size);
const char *next_field(const char **at, const char *end);          /* in a list of texts, each ended by a zero */
bool write_aside(const char *path, const char *data, size_t size); /* a file that appears whole or not at all */

/* What a text must have to hold a site of one metric; `Need` in prefilter.py. */
struct need {
    words_t words;
    const char *used; /* NULL: the words alone decide */
    char use;         /* 'd'efined, 'c'alled, w'r'itten */
    words_t files;    /* 'F': a file's whole name, 'f': its end */
};

struct configuration {
    words_t compiler; /* as the toolchain was given it, with launchers such as ccache in front */
    words_t python;   /* the command that does everything else; the compiler's command is appended */
    /* Tables of options.py. * at the end of an option: and all that begin so */
    words_t separate;     /* options whose value is the next word */
    words_t questions;    /* options of commands that compile nothing that could be counted */
    words_t compiling;    /* options of commands that link nothing */
    words_t harmless;     /* options that change neither which files are read nor what stands in them */
    words_t exceptions;   /* to `harmless` */
    words_t folder_flags; /* options that may change the compiler's own folders */
    words_t endings;      /* ".c=c", ".cc=c++" … ; "=-" for sources that are compiled and cannot be instrumented */
    /* Tables of prefilter.py. */
    words_t trailers;          /* words that stand behind a declaration */
    words_t before_expression; /* behind these an expression may begin, though they are words */
    words_t declaring;         /* what follows one of these, as far as words and * go, is a declaration */
    LIST(struct need) needs;
    const char *log;
    /* Where the compiler's own folders are noted; language and a hash of compiler and flags are appended. */
    const char *folders;
    bool links;    /* a link gets the runtime */
    bool launched; /* the compiler's first word is a launcher such as ccache, its second the compiler */
};

enum language { LANGUAGE_C, LANGUAGE_CXX, PREPROCESSED };

struct source {
    const char *path;
    enum language language;
};

/* A command that compiles and does nothing else, with options that are all understood. */
struct command {
    LIST(struct source) sources;
    const char *output;
    words_t quote, bracket, system, after; /* -iquote, -I, -isystem, -idirafter */
    words_t forced;                        /* -include, -imacros */
    words_t definitions;                   /* -D */
    words_t folder_flags;                  /* those of `configuration.folder_flags`, with their values */
};

enum decision { RUN_COMPILER, LOOK_INTO_SOURCES, ASK_PYTHON };

enum decision read_command(const struct configuration *configuration, char *const *words, struct command *command);

/* Answer of the compiler, as Python noted it for one language and one set of flags. */
struct folders {
    words_t system;
    words_t definitions;
    const char *index; /* the file of index.c for the same */
};

void read_configuration(const char *path, struct configuration *configuration);
bool read_folders(const struct configuration *configuration, const struct command *command, enum language language,
                  const char *name, const char *program, struct folders *folders);

bool cannot_hold_site(const struct configuration *configuration, const struct command *command,
                      const struct source *source, const struct folders *folders);

/* -- shared by the files that look into sources -- */

enum { SOURCE, DEFINITIONS }; /* the first files: the source itself, and what -D says, which comes from no folder */

struct token {
    enum { END, WORD, NUMBER, LITERAL, RAW_LITERAL, SIGN, DIRECTIVE } kind;
    const char *start;
    size_t size;
};

struct file {
    const char *path;
    const char *data; /* followed by 16 zero bytes */
    size_t size;
    bool trusted; /* from the compiler's own folders */
};

struct define {
    size_t file;
    struct token name;
};

struct tree {
    LIST(struct file) files;
    LIST(struct define) defines;
    bool odd;      /* something that only a preprocessor can understand */
    bool has_line; /* #line may give lines to any file */
};

struct folder {
    const char *path;
    dev_t device;
    ino_t inode;
    bool own;      /* of the compiler's own list */
    bool trusted;  /* the same as one of these, perhaps under another name */
    bool doubtful; /* named once more further on: gcc and clang differ in which of the two counts */
};

/* A word that is needed, and where it stands: in a file that was read, or among the words of the index. */
struct sought {
    const char *word;
    size_t size;
    bool found, indexed;
};

/* What a name leads to; doubtful: to a file that may be passed over. */
enum found { ABSENT, DOUBTFUL, OF_SYSTEM, OF_USER };

struct search {
    struct tree tree;
    LIST(struct folder) quote, bracket;
    LIST(struct sought) words;
    struct set paths, bracketed; /* what was looked for: files, and names in <>; with what they lead to */
    size_t bytes;
    char *chunk;
    size_t chunk_left;
    bool shadowed;           /* a header of the system includes one of the user's */
    words_t system_includes; /* names that headers of the system include, and that are not in their own folder */
    struct {
        const char *path;  /* NULL: no index is used */
        const char *words; /* of all its headers, blanks between and around them; NULL: there is none */
        words_t files;     /* time, size and path of each of its headers */
    } index;
};

void add_text(struct search *search, const char *path, char *data, size_t size, bool trusted);
bool add_file(struct search *search, const char *path, bool trusted);
void add_folders(struct search *search, const struct command *command, const struct folders *folders);
enum found include(struct search *search, size_t includer, const char *name, size_t size, bool next);
void read_index(struct search *search);
void extend_index(struct search *search);

enum { PADDING = 16 }; /* zero bytes behind each text */

struct macros;
struct macros *read_macros(const struct configuration *configuration, const struct tree *tree);
bool may_paste(const struct macros *macros, const char *word);
bool is_only_mentioned(const struct configuration *configuration, const struct macros *macros, const struct tree *tree,
                       const struct need *need);

enum {
    FUNCTION_LIKE = 1, /* it takes arguments */
    /* None of these three is so in all its definitions: */
    NO_RENAMING = 32, /* a name for one word */
    NO_WRAPPING = 64, /* an argument with words before it: BZ_API(f) */
    NO_PASSING = 128, /* its argument as it stands, or (): OF((int)) */
    /* What follows is handed on to macros whose bodies mention the macro. */
    UNBALANCED = 2, /* opens parentheses that it does not close, or the other way round */
    ROUGH = 4,      /* holds more than a declaration's words: braces, =, ;, ? or : */
    NO_TYPE = 8,    /* is not only words and * */
    NO_TRAILER = 16 /* is not only attributes, as they stand behind a declaration */
};

/* Where a text is being read. Comments and spliced lines are blanks. */
struct cursor {
    const char *at, *end;
    bool line_start;   /* only blanks stand before `at` on its line */
    bool in_directive; /* END comes at the end of the line */
};

struct token next_token(struct cursor *cursor);
struct token word_at(const char *at);                                                        /* which may be empty */
struct cursor after_name(const struct tree *tree, const struct define *define, bool *takes); /* takes: arguments */
/* Behind a backslash and the line break that it takes away; NULL when it takes none away. */
const char *spliced(const char *at, const char *end);
bool is_among(const words_t *words, struct token word);
int macro_bits(const struct macros *macros, struct token word); /* -1 for a word that is not a macro */

static inline bool is_word_start(char sign)
{
    return (unsigned char)((sign | 32) - 'a') < 26 || sign == '_' || sign == '$' || (unsigned char)sign >= 0x80;
}

static inline bool is_word(char sign) { return is_word_start(sign) || (unsigned char)(sign - '0') < 10; }

static inline bool is_blank(char sign) { return sign == ' ' || sign == '\t' || sign == '\f' || sign == '\v'; }

static inline bool equals(struct token token, const char *text)
{
    return strlen(text) == token.size && memcmp(text, token.start, token.size) == 0;
}

static inline bool starts(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

#endif
