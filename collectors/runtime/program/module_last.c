/* Linked last into an executable or library: nothing that the linker places after its counters shares a page with
 * them. */
#include "../common/unperturbed.h"

__attribute__((section("unperturbed_sites"), aligned(UNPERTURBED_PAGE), used,
               visibility("hidden"))) char unperturbed_sites_last[8] = {0};
