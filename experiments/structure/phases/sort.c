#include "phases.h"

enum { NUMBERS = 1024 }; /* 4 KiB; to sort them takes some 10,000 basic blocks */

static uint32_t table[NUMBERS];

static void sift_down(uint32_t from, uint32_t n)
{
    uint32_t sunk = table[from];
    for (uint32_t child; (child = 2 * from + 1) < n; from = child) {
        if (child + 1 < n && table[child + 1] > table[child])
            child++;
        if (table[child] <= sunk)
            break;
        table[from] = table[child];
    }
    table[from] = sunk;
}

static void heapsort(void)
{
    for (uint32_t from = NUMBERS / 2; from-- > 0;)
        sift_down(from, NUMBERS);
    for (uint32_t n = NUMBERS - 1; n > 0; n--) {
        uint32_t largest = table[0];
        table[0] = table[n];
        table[n] = largest;
        sift_down(0, n);
    }
}

uint32_t sort(uint32_t *state, uint32_t amount)
{
    uint32_t sum = 0;
    for (uint32_t tables = amount; tables > 0; tables--) {
        for (uint32_t i = 0; i < NUMBERS; i++)
            table[i] = next_random(state);
        heapsort();
        sum += table[NUMBERS / 2];
    }
    return sum;
}
