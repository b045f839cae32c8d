/* Jumps out of functions by longjmp(3) and its other names, in programs that count within functions (regions.h): such a
 * jump runs none of the code that leaves a region. Weak symbols: a program with functions of these names keeps its own.
 * A jump costs about 80 instructions more. Regions are for x86-64 alone, and so is this file.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <dlfcn.h>

#if !defined(UNPERTURBED_STATIC) || defined(__GLIBC__) /* musl's static library has no other names */

/* Where the C libraries keep the stack pointer and the next instruction, among the 64-bit words of a jmp_buf. */
enum { STACK = 6, PLACE = 7, WORDS = 64, NEAR = 4096 };

/* Whether the words cannot be read, are plain (musl) or are disguised (glibc: PTR_MANGLE). */
static enum { UNKNOWN, PLAIN, DISGUISED } words;

static uintptr_t revealed(uintptr_t word)
{
    uintptr_t guard;
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    return (word >> 17 | word << 47) ^ guard;
}

static int is_near(uintptr_t stack) { return stack - (uintptr_t)__builtin_frame_address(0) + NEAR < 2 * NEAR; }

/* Not by <setjmp.h>, which renames these functions where a program is built with _FORTIFY_SOURCE. */
extern int set_jump(uintptr_t *buffer) __asm__("_setjmp") __attribute__((returns_twice));

__attribute__((constructor)) static void try_words(void)
{
    static uintptr_t buffer[WORDS];
    if (set_jump(buffer) == 0)
        words = is_near(buffer[STACK]) ? PLAIN : is_near(revealed(buffer[STACK])) ? DISGUISED : UNKNOWN;
}

static void note_jump(const uintptr_t *buffer)
{
    if (words == DISGUISED)
        unperturbed_jump((const char *)revealed(buffer[STACK]), (const char *)revealed(buffer[PLACE]));
    else if (words == PLAIN)
        unperturbed_jump((const char *)buffer[STACK], (const char *)buffer[PLACE]);
}

/* A static program has no next function, but its library's internal name, which checks less than __longjmp_chk. */
#ifdef UNPERTURBED_STATIC
extern void next_jump(const uintptr_t *buffer, int value) __asm__("__libc_siglongjmp") __attribute__((noreturn));
#define NEXT(number, name) \
    static void find_##number(void) {} \
    static void __attribute__((noreturn)) next_##number(const uintptr_t *buffer, int value) \
    { \
        next_jump(buffer, value); \
    }
#else
#define NEXT(number, name) \
    static void (*next_##number)(const uintptr_t *buffer, int value) __attribute__((noreturn)); \
    __attribute__((constructor)) static void find_##number(void) { *(void **)&next_##number = dlsym(RTLD_NEXT, name); }
#endif

/* A jump before the constructors looks for its next function itself. */
#define JUMP(number, name) \
    NEXT(number, name) \
    void jump_##number(const uintptr_t *buffer, int value) __asm__(name) \
        __attribute__((weak, noreturn, visibility("default"))); \
    void jump_##number(const uintptr_t *buffer, int value) \
    { \
        if (!next_##number) \
            find_##number(); \
        note_jump(buffer); \
        next_##number(buffer, value); \
    }

JUMP(1, "longjmp")
JUMP(2, "_longjmp")
JUMP(3, "siglongjmp")
#ifndef UNPERTURBED_STATIC
JUMP(4, "__longjmp_chk")
#endif

#endif
