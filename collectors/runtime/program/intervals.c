/* The ways from sites of the program to the sampler that keep all registers: for intervals that end at the program's own
 * events, and for regions, the functions within which hardware events are counted.
 *
 * A site counts its event, decrements the thread's `unperturbed_remaining`, and at 0 calls
 * `unperturbed_interval_ends`. The compiler of the program does not know of this call, so it keeps every register. The
 * simulator does not collect within. On x86-64, it attributes 6 instructions of an interval's end to the program,
 * always the same: 4 read, 1 writes, and 1 is an indirect branch.
 *
 * A region's sites, at its entry and wherever it is left, call one of the entries of `unperturbed_region_entry`.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <errno.h>

#define TEXT_OF(value) #value
#define TEXT(value) TEXT_OF(value)

__attribute__((weak, visibility("default"), tls_model("initial-exec"))) __thread long long unperturbed_remaining =
    UNPERTURBED_NEVER;

static int has_separate_countdown; /* of a library that was loaded before the record file was claimed */

void unperturbed_register_countdown(long long *remaining)
{
    if (remaining == &unperturbed_remaining)
        return;
    has_separate_countdown = 1;
    if (unperturbed_header && unperturbed_header->clock == CLOCK_IS_PROGRAM)
        unperturbed_mark(MARK_SEPARATE);
}

/* Callgrind's request VG_USERREQ__TOGGLE_COLLECT, which the assembler code below hands over. */
#define TOGGLE_REQUEST \
    ".pushsection .rodata\n" \
    "    .balign 8\n" \
    ".Ltoggle_collect:\n" \
    "    .quad 0x43540002, 0, 0, 0, 0, 0\n" \
    ".popsection\n"

#if defined(__x86_64__) && defined(__LP64__)
/* General, x87, vector and mask registers are kept, by XSAVE where the processor has it; sites leave the red zone. */
#include <cpuid.h>

/* What XSAVE stores: all that C code may change. PKRU and the tiles of AMX are not among it. */
#define FP 1u
#define SSE 2u
#define AVX 4u
#define MASKS_AND_WIDE_VECTORS 0xe0u
#define MORE_GENERAL_REGISTERS (1u << 19)

#define LEGACY_BYTES 576 /* of FXSAVE, and the header of XSAVE */

/* Read by the assembler code below. */
__attribute__((visibility("hidden"))) uint64_t unperturbed_state_bytes = LEGACY_BYTES;
__attribute__((visibility("hidden"))) uint32_t unperturbed_state_parts; /* for XSAVE; 0: FXSAVE */

int unperturbed_prepare_intervals(void)
{
    uint32_t a, b, c, d, enabled, high;
    if (has_separate_countdown)
        unperturbed_mark(MARK_SEPARATE);
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
        return 0;
    __asm__("xgetbv" : "=a"(enabled), "=d"(high) : "c"(0));
    uint32_t parts = enabled & (FP | SSE | AVX | MASKS_AND_WIDE_VECTORS | MORE_GENERAL_REGISTERS);
    for (uint32_t part = 2; part < 32; part++)
        if ((parts >> part & 1) && __get_cpuid_count(0xd, part, &a, &b, &c, &d) && a + b > unperturbed_state_bytes)
            unperturbed_state_bytes = a + b;
    unperturbed_state_parts = parts;
    return 0;
}

/* Callgrind's request to stop or continue to collect costs nothing natively: four rotations that restore the register.
 * The registers that C code keeps (rbx, rbp, r12 to r15) are not saved again. */
#define TOGGLE_COLLECT \
    "    leaq .Ltoggle_collect(%rip), %rax\n" \
    "    xorl %edx, %edx\n" \
    "    rolq $3, %rdi\n    rolq $13, %rdi\n    rolq $61, %rdi\n    rolq $51, %rdi\n    xchgq %rbx, %rbx\n"
#define CALLER_SAVED(each) each(rcx) each(rsi) each(rdi) each(r8) each(r9) each(r10) each(r11)
#define PUSH(name) "    pushq %" #name "\n"

/* clang-format off */
/* Both ways, from their saving of rax on. `function`: called in C with the word above rax and the site's stack pointer.
 * `above`: bytes on the stack above rax. */
#define KEEPING_REGISTERS(function, above) \
    "    .cfi_def_cfa_offset " above "\n" \
    "    pushq %rax\n" \
    "    .cfi_adjust_cfa_offset 8\n" \
    "    pushq %rdx\n" \
    "    .cfi_adjust_cfa_offset 8\n" TOGGLE_COLLECT /* from here on, not collected */ \
    "    pushq %rbp\n" \
    "    .cfi_adjust_cfa_offset 8\n" \
    "    .cfi_rel_offset %rbp, 0\n" \
    "    movq %rsp, %rbp\n" \
    "    .cfi_def_cfa_register %rbp\n" \
    CALLER_SAVED(PUSH) \
    "    subq unperturbed_state_bytes(%rip), %rsp\n" \
    "    andq $-64, %rsp\n" \
    "    movq 24(%rbp), %rdi\n" \
    "    leaq 24+" above "(%rbp), %rsi\n" \
    "    movl unperturbed_state_parts(%rip), %eax\n" \
    "    testl %eax, %eax\n" \
    "    jz 1f\n" \
    "    movq %rdx, 512(%rsp)\n" /* rdx is 0; XRSTOR demands zeros where XSAVE does not write */ \
    "    movq %rdx, 520(%rsp)\n" \
    "    movq %rdx, 528(%rsp)\n" \
    "    movq %rdx, 536(%rsp)\n" \
    "    movq %rdx, 544(%rsp)\n" \
    "    movq %rdx, 552(%rsp)\n" \
    "    movq %rdx, 560(%rsp)\n" \
    "    movq %rdx, 568(%rsp)\n" \
    "    xsave64 (%rsp)\n" \
    "    call " function "\n" \
    "    movl unperturbed_state_parts(%rip), %eax\n" \
    "    xorl %edx, %edx\n" \
    "    xrstor64 (%rsp)\n" \
    "    jmp 2f\n" \
    "1:  fxsave64 (%rsp)\n" \
    "    call " function "\n" \
    "    fxrstor64 (%rsp)\n" \
    "2:  leaq -56(%rbp), %rsp\n" \
    "    popq %r11\n    popq %r10\n    popq %r9\n    popq %r8\n    popq %rdi\n    popq %rsi\n    popq %rcx\n" \
    "    popq %rbp\n" \
    "    .cfi_def_cfa %rsp, 16+" above "\n" \
    "    .cfi_restore %rbp\n" TOGGLE_COLLECT /* from here on, collected again */ \
    "    popq %rdx\n" \
    "    .cfi_adjust_cfa_offset -8\n" \
    "    popq %rax\n" \
    "    .cfi_adjust_cfa_offset -8\n"

__asm__(
    TOGGLE_REQUEST
    ".pushsection .text\n"
    "    .globl unperturbed_interval_ends\n"
    "    .type unperturbed_interval_ends, @function\n"
    "unperturbed_interval_ends:\n"
    "    .cfi_startproc\n"
    "    endbr64\n" KEEPING_REGISTERS("unperturbed_end_interval", "8")
    "    ret\n"
    "    .cfi_endproc\n"
    "    .size unperturbed_interval_ends, .-unperturbed_interval_ends\n"
    /* One entry for each code of `unperturbed_region_entry`; they differ in the word that they push. */
    "    .balign 16\n"
    "    .type unperturbed_region_ways, @function\n"
    "unperturbed_region_ways:\n"
    "    .cfi_startproc\n"
    "    .set .Lunperturbed_code, 0\n"
    "    .rept " TEXT(UNPERTURBED_REGION_CODES) "\n"
    "    .balign 16\n"
    "    endbr64\n"
    "    pushq $.Lunperturbed_code\n"
    "    jmp .Lunperturbed_region\n"
    "    .set .Lunperturbed_code, .Lunperturbed_code + 1\n"
    "    .endr\n"
    ".Lunperturbed_region:\n" KEEPING_REGISTERS("unperturbed_cross_region", "16")
    "    leaq 8(%rsp), %rsp\n"
    "    .cfi_adjust_cfa_offset -8\n"
    "    ret\n"
    "    .cfi_endproc\n"
    "    .size unperturbed_region_ways, .-unperturbed_region_ways\n"
    ".popsection\n");
/* clang-format on */

extern const char unperturbed_region_ways[] __attribute__((visibility("hidden")));

unperturbed_way unperturbed_region_entry(uint32_t code)
{
    return code < UNPERTURBED_REGION_CODES ? (unperturbed_way)(uintptr_t)(unperturbed_region_ways + 16 * (size_t)code)
                                           : NULL;
}
#elif defined(__aarch64__)
/* General registers, flags and vector registers are kept: those of SVE where the processor has them, because every
 * instruction that writes a short vector clears the rest of the long one. x30, the return address, is the site's. */
#include <sys/auxv.h>

#ifndef HWCAP_SVE
#define HWCAP_SVE (1 << 22)
#endif

__attribute__((visibility("hidden"))) uint32_t unperturbed_has_sve; /* read by the assembler code below */

int unperturbed_prepare_intervals(void)
{
    if (has_separate_countdown)
        unperturbed_mark(MARK_SEPARATE);
    unperturbed_has_sve = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0;
    return 0;
}

/* Callgrind's request to stop or continue to collect costs nothing natively: four rotations that restore the register.
 */
#define TOGGLE_COLLECT \
    "    mov x3, #0\n" \
    "    adrp x4, .Ltoggle_collect\n" \
    "    add x4, x4, :lo12:.Ltoggle_collect\n" \
    "    ror x12, x12, #3\n    ror x12, x12, #13\n    ror x12, x12, #51\n    ror x12, x12, #61\n" \
    "    orr x10, x10, x10\n"
#define EACH_PAIR(each) \
    each(0, 1) each(2, 3) each(4, 5) each(6, 7) each(8, 9) each(10, 11) each(12, 13) each(14, 15) each(16, 17) \
        each(18, 19) each(20, 21) each(22, 23) each(24, 25) each(26, 27) each(28, 29) each(30, 31)
#define EACH_PREDICATE(each) \
    each(0) each(1) each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11) each(12) \
        each(13) each(14) each(15)
#define STORE_SHORT(a, b) "    stp q" #a ", q" #b ", [sp, #16 * " #a "]\n"
#define LOAD_SHORT(a, b) "    ldp q" #a ", q" #b ", [sp, #16 * " #a "]\n"
#define STORE_LONG(a, b) "    str z" #a ", [sp, #" #a ", mul vl]\n    str z" #b ", [sp, #" #b ", mul vl]\n"
#define LOAD_LONG(a, b) "    ldr z" #a ", [sp, #" #a ", mul vl]\n    ldr z" #b ", [sp, #" #b ", mul vl]\n"
#define STORE_PREDICATE(a) "    str p" #a ", [sp, #" #a ", mul vl]\n"
#define LOAD_PREDICATE(a) "    ldr p" #a ", [sp, #" #a ", mul vl]\n"

/* clang-format off */
__asm__(
    TOGGLE_REQUEST
    ".pushsection .text\n"
    "    .arch_extension sve\n"
    "    .balign 4\n"
    "    .globl unperturbed_interval_ends\n"
    "    .type unperturbed_interval_ends, %function\n"
    "unperturbed_interval_ends:\n"
    "    .cfi_startproc\n"
    "    hint #34\n" /* bti c */
    "    stp x29, x30, [sp, #-192]!\n"
    "    .cfi_def_cfa_offset 192\n"
    "    .cfi_offset 29, -192\n"
    "    .cfi_offset 30, -184\n"
    "    stp x3, x4, [sp, #16]\n" TOGGLE_COLLECT /* from here on, not collected */
    "    mov x29, sp\n"
    "    .cfi_def_cfa_register 29\n"
    "    stp x0, x1, [sp, #32]\n    stp x2, x5, [sp, #48]\n    stp x6, x7, [sp, #64]\n    stp x8, x9, [sp, #80]\n"
    "    stp x10, x11, [sp, #96]\n    stp x12, x13, [sp, #112]\n    stp x14, x15, [sp, #128]\n"
    "    stp x16, x17, [sp, #144]\n"
    "    mrs x0, nzcv\n"
    "    mrs x1, fpsr\n"
    "    stp x18, x0, [sp, #160]\n"
    "    str x1, [sp, #176]\n"
    "    adrp x0, unperturbed_has_sve\n"
    "    ldr w0, [x0, :lo12:unperturbed_has_sve]\n"
    "    cbz w0, 1f\n"
    "    addvl sp, sp, #-32\n" EACH_PAIR(STORE_LONG)
    "    addvl sp, sp, #-2\n" EACH_PREDICATE(STORE_PREDICATE)
    "    bl unperturbed_end_interval\n" EACH_PREDICATE(LOAD_PREDICATE)
    "    addvl sp, sp, #2\n" EACH_PAIR(LOAD_LONG)
    "    b 2f\n"
    "1:  sub sp, sp, #512\n" EACH_PAIR(STORE_SHORT)
    "    bl unperturbed_end_interval\n" EACH_PAIR(LOAD_SHORT)
    "2:  mov sp, x29\n"
    "    ldr x1, [sp, #176]\n"
    "    ldp x18, x0, [sp, #160]\n"
    "    msr fpsr, x1\n"
    "    msr nzcv, x0\n"
    "    ldp x16, x17, [sp, #144]\n"
    "    ldp x14, x15, [sp, #128]\n    ldp x12, x13, [sp, #112]\n    ldp x10, x11, [sp, #96]\n"
    "    ldp x8, x9, [sp, #80]\n    ldp x6, x7, [sp, #64]\n    ldp x2, x5, [sp, #48]\n    ldp x0, x1, [sp, #32]\n"
    "    .cfi_def_cfa_register 31\n" TOGGLE_COLLECT /* from here on, collected again */
    "    ldp x3, x4, [sp, #16]\n"
    "    ldp x29, x30, [sp], #192\n"
    "    .cfi_restore 30\n"
    "    .cfi_restore 29\n"
    "    .cfi_def_cfa_offset 0\n"
    "    ret\n"
    "    .cfi_endproc\n"
    "    .size unperturbed_interval_ends, .-unperturbed_interval_ends\n"
    ".popsection\n");
/* clang-format on */
#else
void unperturbed_interval_ends(void) {}

int unperturbed_prepare_intervals(void)
{
    errno = ENOTSUP;
    return unperturbed_fail("intervals that end at the program's own events need an x86-64 or AArch64 processor");
}
#endif

#if !(defined(__x86_64__) && defined(__LP64__))
unperturbed_way unperturbed_region_entry(uint32_t code)
{
    (void)code;
    return NULL;
}
#endif
