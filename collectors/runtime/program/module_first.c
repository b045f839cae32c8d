/* First in the link of an executable or a library: its counters begin here, on a page of their own, and it makes them
 * known before they are used. */
#include "../common/unperturbed.h"

__attribute__((section("unperturbed_sites"), aligned(UNPERTURBED_PAGE), used,
               visibility("hidden"))) char unperturbed_sites_first[0];
extern char unperturbed_sites_last[] __attribute__((visibility("hidden")));

/* The linker makes these where there are gauges. */
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

/* Before any library of the program is set up, and before it can have a thread. A library has no such place: its first
 * constructor serves. */
#ifdef UNPERTURBED_EXECUTABLE
__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **, char **) = make_known;
#else
__attribute__((constructor(101))) static void before_others(int argc, char **argv, char **environment)
{
    make_known(argc, argv, environment);
}
#endif
