/* The measured program: turns of a loop of exactly four instructions, and nearly nothing else. */
#include "turns.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    turn(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
    return 0;
}
