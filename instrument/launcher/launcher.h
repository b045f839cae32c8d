/* The launcher: replaces the compiler in a build, and decides within milliseconds whether a command needs the Python
 * wrapper.
 *
 *   main.c     decision, log, exec
 *   settings.c files that the toolchain and the wrapper write for the launcher
 *   command.c  compiler command lines
 *   files.c    which file an #include means, as gcc and clang find it
 *   index.c    index of system headers that earlier sources included
 *   text.c     the source and every file that it may include; which words they contain
 *   tokens.c   C text, token by token
 *   macros.c   the macros of these files: how they can change the text around them
 *   uses.c     whether a name is more than declared or mentioned anywhere
 *   memory.c   growing lists, sets of names, whole files
 *
 * A wrong "needs Python" costs time; a wrong "cannot hold a site" would lose counts and must never happen. Memory is
 * never freed: the process ends within milliseconds, by exec.
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
void add_field(bytes_t *bytes, char letter, const char *value); /* ended by a NUL */

/* An open-addressed set of names, each with a number; the names are not copied. */
struct entry {
    const char *name;
    size_t size;
    uint32_t value;
};

struct set {
    struct entry *items;
    size_t count, room;
};

const struct entry *look_up(const struct set *set, const char *name, size_t size); /* NULL if absent */
/* False: the name is already in the set, which stays the same. */
bool add_name(struct set *set, const char *name, size_t size, uint32_t value);

/* Content of a whole file, followed by a NUL; NULL if it cannot be read. */
char *content(const char *path, size_t *size);
const char *next_field(const char **at, const char *end);          /* in a list of texts, each ended by a NUL */
bool write_aside(const char *path, const char *data, size_t size); /* atomically: the whole file or none */

/* What a text must contain to have a site of one metric; `Need` in targets.py. */
struct need {
    words_t words;
    const char *used; /* NULL: the words alone decide */
    char use;         /* 'd'efined, 'c'alled, w'r'itten */
    words_t files;    /* 'F': a file's whole name, 'f': its end */
};

struct configuration {
    words_t compiler; /* as given to the toolchain, after a launcher such as ccache, if any */
    words_t python;   /* the Python wrapper's command; the compiler's command is appended */
    /* Tables of command_line.py. * at the end of an option matches any text */
    words_t separate;     /* options whose value is the next word */
    words_t questions;    /* options of commands that compile nothing */
    words_t compiling;    /* options of commands that link nothing */
    words_t harmless;     /* options that change neither which files are read nor their text */
    words_t exceptions;   /* exceptions to `harmless` */
    words_t folder_flags; /* options that may change the compiler's own folders */
    words_t endings;      /* ".c=c", ".cc=c++" … ; "=-" for sources that are compiled and cannot be instrumented */
    /* Tables of prefilter.py. */
    words_t trailers;          /* words that may follow a declarator */
    words_t before_expression; /* words after which an expression may begin */
    words_t declaring;         /* words that begin a declaration, which extends over words and * */
    LIST(struct need) needs;
    const char *log;
    /* File of the compiler's own folders; language and a hash of compiler and flags are appended. */
    const char *folders;
    bool links;    /* links get the runtime */
    bool launched; /* the compiler's first word is a launcher such as ccache, its second the compiler */
};

enum language { LANGUAGE_C, LANGUAGE_CXX, PREPROCESSED };

struct source {
    const char *path;
    enum language language;
};

/* A command that only compiles, and whose options are all understood. */
struct command {
    LIST(struct source) sources;
    const char *output;
    words_t quote, bracket, system, after; /* -iquote, -I, -isystem, -idirafter */
    words_t forced;                        /* -include, -imacros */
    words_t definitions;                   /* -D */
    words_t folder_flags;                  /* flags in `configuration.folder_flags`, with their values */
};

enum decision { RUN_COMPILER, LOOK_INTO_SOURCES, ASK_PYTHON };

enum decision read_command(const struct configuration *configuration, char *const *words, struct command *command);

/* Answer of the compiler, as Python recorded it for one language and one set of flags. */
struct folders {
    words_t system;
    words_t definitions;
    const char *index; /* the file of index.c for the same language and flags */
};

void read_configuration(const char *path, struct configuration *configuration);
bool read_folders(const struct configuration *configuration, const struct command *command, enum language language,
                  const char *name, const char *program, struct folders *folders);

bool cannot_hold_site(const struct configuration *configuration, const struct command *command,
                      const struct source *source, const struct folders *folders);

/* -- shared by the files that look into sources -- */

enum { SOURCE, DEFINITIONS }; /* the first files: the source itself, and the -D definitions, which have no folder */

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
    bool odd;      /* there is text that only a preprocessor understands */
    bool has_line; /* #line may assign lines to any file */
};

struct folder {
    const char *path;
    dev_t device;
    ino_t inode;
    bool own;      /* in the compiler's own list */
    bool trusted;  /* the same as one of these, perhaps under a different name */
    bool doubtful; /* repeated later: gcc and clang differ in which of the two they use */
};

/* A word that is needed, and where it occurs: in a file that was read, or among the words of the index. */
struct sought {
    const char *word;
    size_t size;
    bool found, indexed;
};

/* What was found under a name; doubtful: a file that the compiler may skip. */
enum found { ABSENT, DOUBTFUL, OF_SYSTEM, OF_USER };

struct search {
    struct tree tree;
    LIST(struct folder) quote, bracket;
    LIST(struct sought) words;
    struct set paths, bracketed; /* results of all searches: for files, and for names in <> */
    size_t bytes;
    char *chunk;
    size_t chunk_left;
    bool shadowed;           /* a system header includes a user's header */
    words_t system_includes; /* names that system headers include from other folders */
    struct {
        const char *path;  /* NULL: no index is used */
        const char *words; /* of all its headers, with blanks between and around; NULL: no index */
        words_t files;     /* time, size and path of each of its headers */
    } index;
};

void add_text(struct search *search, const char *path, char *data, size_t size, bool trusted);
bool add_file(struct search *search, const char *path, bool trusted);
void add_folders(struct search *search, const struct command *command, const struct folders *folders);
enum found include(struct search *search, size_t includer, const char *name, size_t size, bool next);
void read_index(struct search *search);
void extend_index(struct search *search);

enum { PADDING = 16 }; /* zero bytes after each text */

struct macros;
struct macros *read_macros(const struct configuration *configuration, const struct tree *tree);
bool may_paste(const struct macros *macros, const char *word);
bool is_only_mentioned(const struct configuration *configuration, const struct macros *macros, const struct tree *tree,
                       const struct need *need);

enum {
    FUNCTION_LIKE = 1, /* it takes arguments */
    /* Each of the next three: not every definition of the macro is … */
    NO_RENAMING = 32, /* a name for one word */
    NO_WRAPPING = 64, /* an argument with words before it: BZ_API(f) */
    NO_PASSING = 128, /* its argument as it stands, or (): OF((int)) */
    /* The next four also apply to macros whose bodies mention the macro. */
    UNBALANCED = 2, /* opens parentheses that it does not close, or closes others */
    ROUGH = 4,      /* contains more than a declaration's words: braces, =, ;, ? or : */
    NO_TYPE = 8,    /* is not only words and * */
    NO_TRAILER = 16 /* is not only attributes as after a declarator */
};

/* Reading position in a text. Comments and spliced line breaks are blanks. */
struct cursor {
    const char *at, *end;
    bool line_start;   /* only blanks precede `at` on its line */
    bool in_directive; /* the end of the line gives END */
};

struct token next_token(struct cursor *cursor);
struct token word_at(const char *at);                                                        /* which may be empty */
struct cursor after_name(const struct tree *tree, const struct define *define, bool *takes); /* takes: arguments */
/* Position after a backslash and the line break that it removes; NULL if it removes none. */
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
