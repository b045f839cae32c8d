/* Work of a known length: a loop of exactly four instructions a turn, whatever the processor. */
#ifndef TURNS_H
#define TURNS_H

static inline __attribute__((always_inline)) void turn(unsigned long turns)
{
    unsigned long sum = 0;
    if (!turns)
        return;
#if defined(__aarch64__)
    __asm__ volatile("1: add %1, %1, %0\n\t"
                     "eor %1, %1, %1, lsr #7\n\t"
                     "subs %0, %0, #1\n\t"
                     "b.ne 1b"
                     : "+r"(turns), "+r"(sum)
                     :
                     : "cc");
#elif defined(__riscv)
    __asm__ volatile("1: add %1, %1, %0\n\t"
                     "xori %1, %1, 7\n\t"
                     "addi %0, %0, -1\n\t"
                     "bnez %0, 1b"
                     : "+r"(turns), "+r"(sum));
#elif defined(__x86_64__)
    __asm__ volatile("1: add %0, %1\n\t"
                     "xor $7, %1\n\t"
                     "sub $1, %0\n\t"
                     "jnz 1b"
                     : "+r"(turns), "+r"(sum)
                     :
                     : "cc");
#else
#error "the loop is not written for this processor"
#endif
}

#endif
