/* A program of three: its main thread, a second thread and a child process, each with a loop of exactly four
 * instructions a turn and a counter of its own. */
#include "turns.h"
#include "unperturbed.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAIN, THREAD, CHILD, MEMBERS };
#define ROUNDS 100

static uint64_t counts[MEMBERS] __attribute__((section("unperturbed_sites")));
static const uint32_t metric[MEMBERS] = {MAIN, THREAD, CHILD};
static struct unperturbed_table table = {0, counts, metric, MEMBERS, 1};
static unsigned long turns;

static void __attribute__((constructor)) enrol(void) { unperturbed_register(&table); }

static void spin(int member)
{
    for (int round = 0; round < ROUNDS; round++) {
        turn(turns / ROUNDS);
        ++*(volatile uint64_t *)&counts[member];
    }
}

static void *second(void *nothing)
{
    spin(THREAD);
    return nothing;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    turns = argc > 1 ? strtoul(argv[1], NULL, 10) : ROUNDS;
    pid_t child = fork();
    if (child == 0) {
        spin(CHILD);
        _exit(0);
    }
    if (child < 0 || pthread_create(&thread, NULL, second, NULL) != 0)
        return 1;
    spin(MAIN);
    pthread_join(thread, NULL);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
