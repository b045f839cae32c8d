"""Programs whose calls are counted: every way of passing and returning values, and counting by hand to compare with."""

from __future__ import annotations

LIBRARY = r"""
#define _GNU_SOURCE
#include <stdarg.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
typedef double four __attribute__((vector_size(32)));
__attribute__((target("avx"))) four add4(four a, four b, double c) { return a + b * c; }
#elif defined(__aarch64__) /* all eight registers for vectors, and the way of calling that has the callee keep more */
typedef double pair __attribute__((vector_size(16)));
struct four { pair v[4]; };
struct four add4(struct four a, struct four b, double c) { for (int i = 0; i < 4; i++) a.v[i] += b.v[i] * c; return a; }
__attribute__((aarch64_vector_pcs)) pair keep(pair a) { return a + a; }
#endif
struct big { double a[9]; };
struct two { long a; double b; };
struct mixed { float a; int b; long double c; };
struct big give_big(long a, struct big b) { b.a[3] += (double)a; return b; }
struct two give_two(long a, double b) { return (struct two){a + 1, b * 2}; }
struct mixed give_mixed(struct mixed m, long double d) { m.c += d; return m; }
long double precise(long double a, double b, float c, long double d) { return a + b + c + d; }
long many(long a, long b, long c, long d, long e, long f, long g, long h, double i, double j, double k, double l, double m, double n,
          double o, double p, double q, double r) {
    return a + 2*b + 3*c + 4*d + 5*e + 6*f + 7*g + 8*h + (long)(i + 2*j + 3*k + 4*l + 5*m + 6*n + 7*o + 8*p + 9*q + 10*r); }
_Complex double turn(_Complex double a) { return a * 2.0; }
__int128 wide(__int128 a, int b) { return a * b; }
double sum(int n, ...) { va_list l; double s = 0; va_start(l, n); for (int i = 0; i < n; i++) s += i % 2 ? va_arg(l, double) : va_arg(l, int);
    va_end(l); return s; }
int twice(jmp_buf where, int how) { longjmp(where, how); }
long call_back(long (*f)(long, void *), void *p) { return f(21, p); }
"""

TORTURE = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
struct big { double a[9]; };
struct two { long a; double b; };
struct mixed { float a; int b; long double c; };
struct big give_big(long a, struct big b); struct two give_two(long a, double b);
struct mixed give_mixed(struct mixed m, long double d); long double precise(long double a, double b, float c, long double d);
long many(long, long, long, long, long, long, long, long, double, double, double, double, double, double, double, double, double, double);
_Complex double turn(_Complex double a); __int128 wide(__int128 a, int b); double sum(int n, ...); int twice(jmp_buf, int);
long call_back(long (*f)(long, void *), void *p);
static char text[4000];
static int length;
#define SAY(...) (length += snprintf(text + length, sizeof text - (size_t)length, __VA_ARGS__))
#if defined(__x86_64__)
typedef double four __attribute__((vector_size(32)));
four add4(four a, four b, double c);
__attribute__((target("avx"))) static void add_vectors(void) {
    four a = {1, 2, 3, 4}, b = {10, 20, 30, 40}, c = add4(a, b, 0.5);
    SAY("add4 %g %g %g %g\n", c[0], c[1], c[2], c[3]);
}
static void vectors(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx")) add_vectors();
}
#elif defined(__aarch64__)
typedef double pair __attribute__((vector_size(16)));
struct four { pair v[4]; };
struct four add4(struct four a, struct four b, double c);
__attribute__((aarch64_vector_pcs)) pair keep(pair a);
static volatile double one = 1;
static void vectors(void) {
    struct four a, b;
    pair kept[12], sum = {0, 0};
    for (int i = 0; i < 8; i++) (i < 4 ? &a : &b)->v[i & 3] = (pair){one + i, one * 10 * i};
    a = add4(a, b, 0.5);
    for (int i = 0; i < 4; i++) SAY("add4 %g %g\n", a.v[i][0], a.v[i][1]);
#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
#define SET(i) kept[i] = (pair){one + i, one * 100 * i};
#define ADD(i) sum += kept[i] * (double)(i + 1);
    EACH(SET)
    pair twice = keep(kept[3]); /* the others are in registers meanwhile */
    EACH(ADD)
    SAY("keep %g %g %g %g\n", twice[0], twice[1], sum[0], sum[1]);
}
#endif
static void all(void) {
    vectors();
    struct big big = give_big(7, (struct big){{1, 2, 3, 4, 5, 6, 7, 8, 9}});
    struct two two = give_two(4, 2.5);
    struct mixed mixed = give_mixed((struct mixed){1.5f, 3, 2.25L}, 4.0L);
    SAY("%g %g %g, %ld %g, %g %d %Lg\n", big.a[0], big.a[3], big.a[8], two.a, two.b, mixed.a, mixed.b, mixed.c);
    SAY("%.20Lg\n", precise(1.0L / 3, 2.5, 3.5f, 1e-10L));
    SAY("%ld\n", many(1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10));
    _Complex double t = turn(__builtin_complex(1.5, -2.0));
    SAY("%g %g %ld\n", __real__ t, __imag__ t, (long)(wide((__int128)1 << 70, 3) >> 69));
    errno = 77;
    SAY("%g %g\n", sum(5, 1, 2.5, 3, 4.5, 5), sum(12, 1, 2., 3, 4., 5, 6., 7, 8., 9, 10., 11, 12.));
    SAY("errno %d\n", errno);
}
static long on_call(long n, void *p) { return n * *(long *)p; }
static void enter_twice(void) {
    jmp_buf where;
    volatile int times = 0;
    int how = setjmp(where);
    if (how < 3) { times++; twice(where, how + 1); }
    long two = 2;
    int status = 0;
    SAY("times %d, callback %ld\n", times, call_back(on_call, &two));
    pid_t child = vfork();
    if (child == 0) _exit(9);
    waitpid(child, &status, 0);
    SAY("vfork %d\n", WEXITSTATUS(status));
}
#ifdef EARLY /* before any library is set up, the one that counts included */
__attribute__((section(".preinit_array"), used)) static void (*const early)(void) = all;
#endif
int main(void) { all(); enter_twice(); fwrite(text, 1, (size_t)length, stdout); return 0; }
"""

CALLED = {
    "add4": 1,
    "give_big": 1,
    "give_two": 1,
    "give_mixed": 1,
    "precise": 1,
    "many": 1,
    "turn": 1,
    "wide": 1,
    "sum": 2,
}
"""Calls of the library's functions when the program goes through all of them once; on AArch64 there is one more of `keep`."""

ALLOCATING = r"""
#include <stdio.h>
#include <stdlib.h>
#ifndef TURNS
#define TURNS 20000
#endif
static volatile unsigned long work;
static void busy(unsigned long n) { for (unsigned long i = 0; i < n; i++) work += i; }
int main(int count, char **argument) {
    void *volatile p;
    for (int i = 0; i < 3000; i++) {
        p = malloc((size_t)i);
        if (i % 3 == 0) p = realloc(p, (size_t)i + 100);
        free(p);
        if (i % 10 == 0) { p = calloc((size_t)i, 3); free(p); }
        busy(TURNS);
    }
    printf("%d done\n", count + !argument);
    return 3;
}
"""
ALLOCATED = {"malloc": 3001, "realloc": 1000, "free": 3300, "calloc": 300, "pthread_create": 0}
"""What it calls, to be compiled with -fno-builtin; stdout's buffer is the C library's own call of malloc."""

COLLIDING = r"""
#include <pthread.h>
#include <stdlib.h>
void poke(void);
static int times;
static void *work(void *p) { for (int i = 0; i < times; i++) poke(); return p; }
int main(int count, char **argument) {
    pthread_t t[2];
    times = count > 1 ? atoi(argument[1]) : 3000000;
    for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
    return 0;
}
"""
"""Two threads that call one function, `poke`, so many times each."""

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned long own;
long count(long a, long b, long c, long d) __asm__(NAME);
long count(long a, long b, long c, long d) {
    static long (*next)(long, long, long, long);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, NAME);
    __atomic_fetch_add(&own, 1, __ATOMIC_RELAXED);
    return next(a, b, c, d);
}
__attribute__((destructor)) static void tell(void) {
    char text[32];
    int fd = open(getenv("COUNT_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(fd, text, (size_t)snprintf(text, sizeof text, "%lu", own)) < 0) _exit(99);
}
"""
"""A library for LD_PRELOAD that counts the calls of one function, NAME, in the file of COUNT_FILE."""
