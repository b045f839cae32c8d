/* Intervals that end at the program's own events: the way from a site of the metric that ends them to the sampler.
 *
 * A site counts its event, decrements the thread's `unperturbed_remaining`, and at 0 leaves the red zone and calls
 * `unperturbed_interval_ends`. The compiler of the program does not know of this call, so it keeps every register:
 * general, x87, vector and mask registers, by XSAVE where the processor has it. The simulator does not collect within.
 * Of an interval's end it attributes 6 instructions to the program, always the same: 4 read, 1 writes, and 1 is an
 * indirect branch.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <errno.h>

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

#if defined(__x86_64__) && defined(__LP64__)
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

__asm__(
    ".pushsection .rodata\n"
    "    .balign 8\n"
    ".Ltoggle_collect:\n"
    "    .quad 0x43540002, 0, 0, 0, 0, 0\n" /* VG_USERREQ__TOGGLE_COLLECT */
    ".popsection\n"
    ".pushsection .text\n"
    "    .globl unperturbed_interval_ends\n"
    "    .type unperturbed_interval_ends, @function\n"
    "unperturbed_interval_ends:\n"
    "    .cfi_startproc\n"
    "    endbr64\n"
    "    pushq %rax\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    pushq %rdx\n"
    "    .cfi_adjust_cfa_offset 8\n" TOGGLE_COLLECT /* from here on, not collected */
    "    pushq %rbp\n"
    "    .cfi_adjust_cfa_offset 8\n"
    "    .cfi_rel_offset %rbp, 0\n"
    "    movq %rsp, %rbp\n"
    "    .cfi_def_cfa_register %rbp\n" CALLER_SAVED(
        PUSH) "    subq unperturbed_state_bytes(%rip), %rsp\n"
              "    andq $-64, %rsp\n"
              "    movl unperturbed_state_parts(%rip), %eax\n"
              "    testl %eax, %eax\n"
              "    jz 1f\n"
              "    movq %rdx, 512(%rsp)\n" /* rdx is 0; XRSTOR demands zeros where XSAVE does not write */
              "    movq %rdx, 520(%rsp)\n"
              "    movq %rdx, 528(%rsp)\n"
              "    movq %rdx, 536(%rsp)\n"
              "    movq %rdx, 544(%rsp)\n"
              "    movq %rdx, 552(%rsp)\n"
              "    movq %rdx, 560(%rsp)\n"
              "    movq %rdx, 568(%rsp)\n"
              "    xsave64 (%rsp)\n"
              "    call unperturbed_end_interval\n"
              "    movl unperturbed_state_parts(%rip), %eax\n"
              "    xorl %edx, %edx\n"
              "    xrstor64 (%rsp)\n"
              "    jmp 2f\n"
              "1:  fxsave64 (%rsp)\n"
              "    call unperturbed_end_interval\n"
              "    fxrstor64 (%rsp)\n"
              "2:  leaq -56(%rbp), %rsp\n"
              "    popq %r11\n    popq %r10\n    popq %r9\n    popq %r8\n    popq %rdi\n    popq %rsi\n    popq %rcx\n"
              "    popq %rbp\n"
              "    .cfi_def_cfa %rsp, 24\n"
              "    .cfi_restore %rbp\n" TOGGLE_COLLECT /* from here on, collected again */
              "    popq %rdx\n"
              "    .cfi_adjust_cfa_offset -8\n"
              "    popq %rax\n"
              "    .cfi_adjust_cfa_offset -8\n"
              "    ret\n"
              "    .cfi_endproc\n"
              "    .size unperturbed_interval_ends, .-unperturbed_interval_ends\n"
              ".popsection\n");
#else
void unperturbed_interval_ends(void) {}

int unperturbed_prepare_intervals(void)
{
    errno = ENOTSUP;
    return unperturbed_fail("intervals that end at the program's own events need an x86-64 processor");
}
#endif
