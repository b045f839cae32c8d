/* What csmith's programs include: arithmetic without undefined behaviour, and a checksum. Its own header comes in
 * another package than the generator. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define ARITHMETIC(T, S, LEAST) \
    static T safe_add_func_##T##_##S##_##S(T a, T b) { return (T)((uint64_t)a + (uint64_t)b); } \
    static T safe_sub_func_##T##_##S##_##S(T a, T b) { return (T)((uint64_t)a - (uint64_t)b); } \
    static T safe_mul_func_##T##_##S##_##S(T a, T b) { return (T)((uint64_t)a * (uint64_t)b); } \
    static T safe_unary_minus_func_##T##_##S(T a) { return (T)(0 - (uint64_t)a); } \
    static T safe_div_func_##T##_##S##_##S(T a, T b) \
    { \
        if (b == 0 || ((LEAST) != 0 && a == (T)(LEAST) && b == (T) - 1)) \
            return a; \
        return (T)(a / b); \
    } \
    static T safe_mod_func_##T##_##S##_##S(T a, T b) \
    { \
        return b == 0 || ((LEAST) != 0 && a == (T)(LEAST) && b == (T) - 1) ? a : (T)(a % b); \
    } \
    SHIFTS(T, S, s, int) \
    SHIFTS(T, S, u, unsigned)
#define SHIFTS(T, S, R, B) \
    static T safe_lshift_func_##T##_##S##_##R(T a, B b) \
    { \
        return (unsigned)b < 8 * sizeof a ? (T)((uint64_t)a << b) : a; \
    } \
    static T safe_rshift_func_##T##_##S##_##R(T a, B b) { return (unsigned)b < 8 * sizeof a ? (T)(a >> b) : a; }

ARITHMETIC(int8_t, s, INT8_MIN)
ARITHMETIC(int16_t, s, INT16_MIN)
ARITHMETIC(int32_t, s, INT32_MIN)
ARITHMETIC(int64_t, s, INT64_MIN)
ARITHMETIC(uint8_t, u, 0)
ARITHMETIC(uint16_t, u, 0)
ARITHMETIC(uint32_t, u, 0)
ARITHMETIC(uint64_t, u, 0)

static uint32_t crc32_tab[256], crc32_context = 0xFFFFFFFFu;

static void crc32_gentab(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
        crc32_tab[i] = crc;
    }
}

static void transparent_crc_bytes(char *bytes, int count, char *name, int print)
{
    for (int i = 0; i < count; i++)
        crc32_context = crc32_context >> 8 ^ crc32_tab[(crc32_context ^ (unsigned char)bytes[i]) & 255];
    if (print)
        printf("checksum after hashing %s: %X\n", name, ~crc32_context);
}

static void transparent_crc(uint64_t value, char *name, int print)
{
    transparent_crc_bytes((char *)&value, sizeof value, name, print);
}

static void platform_main_begin(void) {}

static void platform_main_end(uint32_t crc, int print) { printf("checksum = %X%s\n", crc, print ? " (all)" : ""); }
