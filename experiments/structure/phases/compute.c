#include "phases.h"

enum { STEPS = 10000 };

uint32_t compute(uint32_t seed, uint32_t amount)
{
    uint32_t a = seed | 1;
    uint32_t b = 0x9e3779b9u;
    for (uint32_t steps = amount * STEPS; steps > 0; steps--) {
        a = a * 1664525u + 1013904223u;
        b ^= a >> 7;
        b = (b << 5 | b >> 27) + a;
        a ^= b * 69069u;
    }
    return a + b;
}
