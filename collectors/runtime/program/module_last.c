/* Last in the link of an executable or a library: what the linker puts behind its counters shares no page with them. */
#include "../common/unperturbed.h"

__attribute__((section("unperturbed_sites"), aligned(UNPERTURBED_PAGE), used,
               visibility("hidden"))) char unperturbed_sites_last[8] = {0};
