/* Four kinds of work that a processor's counters tell apart. A phase does `amount` units of one kind, of some 10,000
 * basic blocks each, and returns a number that depends on all that was done. */
#ifndef PHASES_H
#define PHASES_H

#include <stdbool.h>
#include <stdint.h>

/* xorshift: the same numbers on every host. `state` is never 0. */
static inline uint32_t next_random(uint32_t *state)
{
    uint32_t x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

/* Follows a ring of links in random order through more memory than any cache holds: misses of every level. */
typedef struct {
    uint32_t *link;
    uint32_t at;
} Chase;

bool chase_open(Chase *chase);
void chase_close(Chase *chase);
uint32_t chase(Chase *chase, uint32_t amount);

/* Arithmetic on a few registers: neither misses nor mispredicted branches. */
uint32_t compute(uint32_t seed, uint32_t amount);

/* Fills a small table with random numbers and sorts it by comparing: mispredicted branches, in the first-level
 * cache. */
uint32_t sort(uint32_t *state, uint32_t amount);

/* Adds to a large table from its beginning to its end: a miss for each new line, and branches that are all
 * predicted. */
typedef struct {
    uint32_t *table;
    uint32_t at;
} Stream;

bool stream_open(Stream *stream);
void stream_close(Stream *stream);
uint32_t stream(Stream *stream, uint32_t amount);

#endif
