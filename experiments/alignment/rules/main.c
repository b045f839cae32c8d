/* rules: a rule engine. Its files hold rules, see compile.h; facts, (fact CLASS VALUE …); and (run), which fires what
 * there is to fire. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "fire.h"
#include "reader.h"

enum { EXIT_SYSTEM = 1, EXIT_USAGE = 2, EXIT_WRONG = 3 };

/* Large, so that a run makes few system calls. */
static char in_buffer[1 << 20];
static char out_buffer[1 << 20];
static Network network;
static Reader reader;

static const char *add_fact(const Form *form)
{
    Value slots[MOST_SLOTS];
    int count = 0;
    if (!form || !form->word)
        return "a fact has a class";
    for (const Form *slot = form->next; slot; slot = slot->next) {
        if (!slot->word || count == MOST_SLOTS)
            return "a fact has at most five values, which are words or numbers";
        slots[count++] = value_of_word(slot->word);
    }
    network_assert(&network, value_of_word(form->word), count, slots);
    return NULL;
}

static const char *carry_out(const Form *form)
{
    const char *verb = form->first ? form->first->word : NULL;
    if (verb && strcmp(verb, "fact") == 0)
        return add_fact(form->first->next);
    if (verb && strcmp(verb, "rule") == 0)
        return compile_rule(&network, form);
    if (!verb || strcmp(verb, "run") != 0)
        return "neither fact nor rule nor run";
    printf("%u fired\n", fire_all(&network, stdout));
    return NULL;
}

static int read_file(const char *path)
{
    FILE *in = fopen(path, "r");
    if (!in) {
        fprintf(stderr, "rules: %s: %s\n", path, strerror(errno));
        return EXIT_SYSTEM;
    }
    setvbuf(in, in_buffer, _IOFBF, sizeof in_buffer);
    reader.in = in;
    reader.line = 1;
    reader.wrong = NULL;
    for (Form *form; !reader.wrong && (form = reader_next(&reader));)
        reader.wrong = carry_out(form);
    if (reader.wrong)
        fprintf(stderr, "rules: %s:%u: %s\n", path, reader.line, reader.wrong);
    fclose(in);
    return reader.wrong ? EXIT_WRONG : EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs("usage: rules FILE …   read rules and facts, and fire the rules\n", stderr);
        return EXIT_USAGE;
    }
    setvbuf(stdout, out_buffer, _IOFBF, sizeof out_buffer);
    for (int index = 1; index < argc; index++) {
        int code = read_file(argv[index]);
        if (code != EXIT_SUCCESS)
            return code;
    }
    if (fflush(stdout) != 0) {
        fprintf(stderr, "rules: standard output: %s\n", strerror(errno));
        return EXIT_SYSTEM;
    }
    return EXIT_SUCCESS;
}
