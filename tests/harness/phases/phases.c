/* A small program with phases, for the tests of campaigns: it walks, it branches, it prints what it found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE = 1 << 20, ROUNDS = 60, STEPS = 30000 };

static unsigned char table[TABLE];
static unsigned state = 1;
static long found;

static unsigned next(void)
{
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

static void walk(int steps)
{
    for (int i = 0; i < steps; i++)
        table[next() % TABLE]++;
}

static void branch(int steps)
{
    for (int i = 0; i < steps; i++) {
        if (next() & 1)
            found += 3;
        else
            found ^= i;
    }
}

static void sweep(int steps)
{
    for (int i = 0; i < steps; i++)
        found += table[i];
}

static void begin_round(int round) { found += round; }

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS;
    for (int round = 0; round < rounds; round++) {
        begin_round(round);
        walk(STEPS * (1 + round % 3));
        branch(STEPS * (1 + round % 2));
        sweep(4 * STEPS);
    }
    printf("%ld\n", found);
    return 0;
}
