/* A small program with phases: random accesses to a table, branches, a sweep. Usage: phases [ROUNDS [TABLE_KIB]] */
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 30000 };

static unsigned char *table;
static unsigned table_size;
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
        table[next() % table_size]++;
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
        found += table[i % table_size];
}

static void begin_round(int round) { found += round; }

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    table_size = 1024u * (argc > 2 ? (unsigned)atoi(argv[2]) : 1024u);
    table = calloc(table_size, 1);
    if (table == NULL || table_size == 0)
        return 1;
    for (int round = 0; round < rounds; round++) {
        begin_round(round);
        walk(STEPS * (1 + round % 3));
        branch(STEPS * (1 + round % 2));
        sweep(4 * STEPS);
    }
    printf("%ld\n", found);
    free(table);
    return 0;
}
