/* The measured program: turns of a loop of exactly four instructions, and nearly nothing else. */
#include <stdlib.h>

int main(int argc, char **argv)
{
    unsigned long turns = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    unsigned long sum = 0;
    if (turns)
        __asm__ volatile("1: add %1, %1, %0\n\t"
                         "eor %1, %1, %1, lsr #7\n\t"
                         "subs %0, %0, #1\n\t"
                         "b.ne 1b"
                         : "+r"(turns), "+r"(sum)
                         :
                         : "cc");
    return 0;
}
