/* A small program for the tests of sweeps: points STEPS WAY. It walks so many steps, or touches so many pages, and ends
 * in some way. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile long found;

static void walk(long steps)
{
    for (long i = 0; i < steps; i++)
        found += i ^ 5;
}

static void touch(long pages)
{
    char *memory = mmap(NULL, (size_t)pages * 4096 + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(memory, (size_t)pages * 4096 + 1, MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++)
        memory[i * 4096] = 1;
}

int main(int count, char **argument)
{
    long steps = count > 2 ? atol(argument[1]) : 0;
    const char *way = count > 2 ? argument[2] : "";
    const char *scale = getenv("SCALE");
    if (strcmp(way, "touch") == 0)
        touch(steps);
    else
        walk(steps * (scale ? atol(scale) : 1));
    if (strcmp(way, "crash") == 0)
        return 9;
    if (strcmp(way, "measured") == 0 && getenv("UNPERTURBED_RECORD"))
        puts("I am measured");
    if (strcmp(way, "own number") == 0)
        printf("%d\n", (int)getpid());
    printf("%s\n", way);
    if (strcmp(way, "abrupt") == 0) {
        fflush(stdout);
        syscall(SYS_exit_group, 0); /* not even the C library's _exit */
    }
    return 0;
}
