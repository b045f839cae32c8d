/* A program of three kinds of work that take turns: arithmetic, fresh pages, and calls of the kernel. The lengths of the
 * turns vary, so that each stretch of the run is known by what came before and after it. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16 };

static unsigned long state = 88172645463325252;

static unsigned chance(unsigned below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    unsigned long sum = 0, called = 0, written = 0;
    for (int round = 0; round < rounds; round++) {
        for (unsigned turn = 200000 + chance(400000); turn; turn--)
            sum = sum * 31 + turn;
        for (unsigned turn = 10 + chance(30); turn; turn--, written += PAGES) {
            char *fresh = mmap(NULL, (size_t)PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (fresh == MAP_FAILED)
                return 1;
            memset(fresh, (int)turn, (size_t)PAGES * PAGE);
            munmap(fresh, (size_t)PAGES * PAGE);
        }
        for (unsigned turn = 2000 + chance(4000); turn; turn--, called++)
            syscall(SYS_getppid);
    }
    printf("%lu %lu %lu\n", sum, called, written);
    return 0;
}
