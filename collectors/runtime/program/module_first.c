/* Linked first into an executable or library: its counters begin here, on a new page, and this file registers them
 * before they are used. */
#include "../common/unperturbed.h"

__attribute__((section("unperturbed_sites"), aligned(UNPERTURBED_PAGE), used,
               visibility("hidden"))) char unperturbed_sites_first[0];
extern char unperturbed_sites_last[] __attribute__((visibility("hidden")));

/* The linker defines these symbols if there are gauges. */
extern struct unperturbed_gauge __start_unperturbed_gauges[] __attribute__((weak, visibility("hidden")));
extern struct unperturbed_gauge __stop_unperturbed_gauges[] __attribute__((weak, visibility("hidden")));

void unperturbed_register_module(struct unperturbed_module *module, char **environment)
    __attribute__((weak, visibility("default")));

static struct unperturbed_module module = {0, unperturbed_sites_first,    unperturbed_sites_last,   0,
                                           0, __start_unperturbed_gauges, __stop_unperturbed_gauges};

static void make_known(int argc, char **argv, char **environment)
{
    static int done;
    (void)argc;
    (void)argv;
    if (!done && unperturbed_register_module) {
        done = 1;
        unperturbed_register_module(&module, environment);
    }
}

/* Runs before any of the program's libraries is initialised, and before there can be threads. A library has no such
 * array: its first constructor is used. */
#ifdef UNPERTURBED_EXECUTABLE
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **, char **) = make_known;
#else
__attribute__((constructor(101))) static void before_others(int argc, char **argv, char **environment)
{
    make_known(argc, argv, environment);
}
#endif
