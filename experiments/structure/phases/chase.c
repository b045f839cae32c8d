#include <stdlib.h>

#include "phases.h"

enum { LINKS = 1 << 18, STEPS = 10000 }; /* 1 MiB */

bool chase_open(Chase *chase)
{
    chase->at = 0;
    chase->link = malloc(LINKS * sizeof *chase->link);
    if (!chase->link)
        return false;
    for (uint32_t i = 0; i < LINKS; i++)
        chase->link[i] = i;
    /* Sattolo's shuffle: one ring through all of them. */
    uint32_t state = 1;
    for (uint32_t i = LINKS - 1; i > 0; i--) {
        uint32_t other = next_random(&state) % i;
        uint32_t kept = chase->link[i];
        chase->link[i] = chase->link[other];
        chase->link[other] = kept;
    }
    return true;
}

void chase_close(Chase *chase) { free(chase->link); }

uint32_t chase(Chase *chase, uint32_t amount)
{
    uint32_t at = chase->at;
    uint32_t sum = 0;
    for (uint32_t steps = amount * STEPS; steps > 0; steps--) {
        at = chase->link[at];
        sum += at;
    }
    chase->at = at;
    return sum;
}
