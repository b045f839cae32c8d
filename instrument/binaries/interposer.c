/* LD_PRELOAD library: functions that count a call and jump to the next function of the same name.
 *
 * `unperturbed.instrument.binaries.interposition` adds macros before this text and the functions after it. A call costs
 * one instruction for each metric, three that see whether the sampler called, and one jump. It needs no stack, and only
 * registers that a call may change, so arguments, results and functions that return twice are not affected. If a function is called before this library is set up, its first call
 * finds the next function, and meanwhile saves every register that may contain an argument.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden"), used))
#define FUNCTIONS (sizeof names / sizeof *names)

static const char *const names[] = {NAMES};
static const uint32_t metric[] = {METRICS};

/* The layout of unperturbed.h. */
struct unperturbed_table {
    struct unperturbed_table *next;
    uint64_t *counts;
    const uint32_t *metric;
    uint32_t sites;
    uint32_t version;
};
void unperturbed_register(struct unperturbed_table *table) __attribute__((weak, visibility("default")));

HIDDEN uint64_t unperturbed_interposed_counts[SITES] __attribute__((section("unperturbed_sites"), aligned(64)));
/* Address to which each function jumps; initially, code that finds the next function. */
extern void *unperturbed_interposed_next[] __attribute__((visibility("hidden")));

/* Above 0 while the sampler runs in this thread, or a library that it uses (see runtime.h): nothing is counted. */
__attribute__((weak, visibility("default"), used, tls_model("initial-exec"))) __thread int unperturbed_apart;

static struct unperturbed_table table = {NULL, unperturbed_interposed_counts, metric, SITES, 1};

static int is_own(const void *function)
{
    Dl_info here, there;
    return dladdr(unperturbed_interposed_next, &here) && dladdr(function, &there) && here.dli_fbase == there.dli_fbase;
}

/* RTLD_NEXT does not search libraries that were opened with RTLD_LOCAL, although they call our functions. */
static void *find_in_opened(const char *name)
{
    for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
        void *library = map->l_name[0] ? dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) : NULL;
        void *found = library ? dlsym(library, name) : NULL;
        if (library)
            dlclose(library);
        if (found && !is_own(found))
            return found;
    }
    return NULL;
}

/* Before glibc 2.34, dlsym(3) may allocate memory: while it looks for an allocator, it gets memory from the C library's
 * own allocator. */
static void *allocator_of_the_library(const char *name)
{
    static const struct {
        const char *name, *own;
    } same[] = {{"malloc", "__libc_malloc"},
                {"calloc", "__libc_calloc"},
                {"realloc", "__libc_realloc"},
                {"free", "__libc_free"}};
    extern void *__libc_malloc(size_t) __attribute__((weak));
    extern void *__libc_calloc(size_t, size_t) __attribute__((weak));
    extern void *__libc_realloc(void *, size_t) __attribute__((weak));
    extern void __libc_free(void *) __attribute__((weak));
    void *const own[] = {(void *)__libc_malloc, (void *)__libc_calloc, (void *)__libc_realloc, (void *)__libc_free};
    for (unsigned i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(name, same[i].name) == 0)
            return own[i];
    return NULL;
}

static void *find_next(unsigned index, int is_called)
{
    static __thread int looking __attribute__((tls_model("initial-exec")));
    int saved = errno;
    void *found = looking ? allocator_of_the_library(names[index]) : NULL;
    if (found)
        return found;
    looking++;
    found = dlsym(RTLD_NEXT, names[index]);
    if (!found) {
        dlerror(); /* hide this error from the program */
        /* Before the C library is set up, nothing may be opened. */
        found = is_called ? find_in_opened(names[index]) : NULL;
        dlerror();
    }
    looking--;
    if (found)
        __atomic_store_n(&unperturbed_interposed_next[index], found, __ATOMIC_RELAXED);
    errno = saved;
    return found;
}

/* Called by a function if its next function is not known yet. */
HIDDEN void *unperturbed_interposed_find(unsigned index)
{
    void *found = find_next(index, 1);
    if (!found) { /* as the dynamic linker does without this library */
        static const char message[] = ": symbol lookup error: no loaded library defines it\n";
        if (write(2, names[index], strlen(names[index])) < 0 || write(2, message, sizeof message - 1) < 0)
            _exit(126);
        _exit(127);
    }
    return found;
}

#if defined(__x86_64__)
#define JUMP_SLOT R_X86_64_JUMP_SLOT
#define GLOB_DAT R_X86_64_GLOB_DAT
#elif defined(__aarch64__)
#define JUMP_SLOT R_AARCH64_JUMP_SLOT
#define GLOB_DAT R_AARCH64_GLOB_DAT
#else
#error "calls to library functions can be counted only on x86-64 and aarch64"
#endif

/* Calls by this library and by the sampler are not the program's: in this library and a preloaded runtime, calls are
 * bound to the next functions instead of ours. */
static void pass_by(uintptr_t base, const ElfW(Rela) * relocation, size_t bytes, const ElfW(Sym) * symbols,
                    const char *strings)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (const ElfW(Rela) *end = relocation + bytes / sizeof *relocation; relocation < end; relocation++) {
        if (ELF64_R_TYPE(relocation->r_info) != JUMP_SLOT && ELF64_R_TYPE(relocation->r_info) != GLOB_DAT)
            continue;
        const char *name = strings + symbols[ELF64_R_SYM(relocation->r_info)].st_name;
        for (unsigned index = 0; index < FUNCTIONS; index++) {
            if (strcmp(name, names[index]) != 0)
                continue;
            void **place = (void **)(base + relocation->r_offset), *next = unperturbed_interposed_next[index];
            if (is_own(next) || mprotect((void *)((uintptr_t)place & -page), page, PROT_READ | PROT_WRITE) != 0)
                continue;
            __atomic_store_n(place, next, __ATOMIC_RELAXED);
        }
    }
}

static void bind_past_us(const void *inside)
{
    Dl_info info;
    struct link_map *map = NULL;
    if (!inside || !dladdr1(inside, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_name[0])
        return; /* not present, or part of the program, so its calls are the program's own */
    const ElfW(Rela) *lazy = NULL, *eager = NULL;
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    size_t lazy_bytes = 0, eager_bytes = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_JMPREL)
            lazy = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_RELA)
            eager = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_SYMTAB)
            symbols = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_STRTAB)
            strings = (const void *)entry->d_un.d_ptr;
        else if (entry->d_tag == DT_PLTRELSZ)
            lazy_bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_RELASZ)
            eager_bytes = entry->d_un.d_val;
    }
    pass_by(map->l_addr, lazy, lazy_bytes, symbols, strings);
    pass_by(map->l_addr, eager, eager_bytes, symbols, strings);
}

static void set_up(void)
{
    uint64_t before[SITES];
    volatile uint64_t *counts = unperturbed_interposed_counts; /* no memcpy, which may be one of our functions */
    for (unsigned site = 0; site < SITES; site++)
        before[site] = counts[site];
    for (unsigned index = 0; index < FUNCTIONS; index++)
        find_next(index, 0); /* a function that no library defines yet is searched again when it is called */
    bind_past_us(names);
    bind_past_us((const void *)unperturbed_register);
    for (unsigned site = 0; site < SITES; site++)
        counts[site] = before[site];
}

/* Runs before the constructor that registers the counters' pages, because that constructor also calls functions. */
static void (*const before_all)(void) __attribute__((section(".init_array.00100"), used)) = set_up;

static void __attribute__((constructor)) enrol(void)
{
    if (unperturbed_register)
        unperturbed_register(&table);
}

#define TEXT(value) #value
#define FUNCTION_BEGIN(name) \
    ".text\n.p2align 4\n.globl \"" name "\"\n.type \"" name "\",%function\n\"" name "\":\n.cfi_startproc\n"
#define FUNCTION_END(index, name) \
    ".cfi_endproc\n.size \"" name "\",.-\"" name "\"\n" NEXT_SECTION ".quad unperturbed_interposed_way_" #index \
    "\n.text\n"
#define TABLE "unperturbed_interposed_next"
#define COUNTS "unperturbed_interposed_counts"
#define NEXT_SECTION ".section .data.unperturbed_next,\"aw\",%progbits\n"
__asm__(NEXT_SECTION ".p2align 6\n.globl " TABLE "\n.hidden " TABLE "\n" TABLE ":\n.text\n");

#if defined(__x86_64__)
#if defined(__CET__) && (__CET__ & 1)
#define LANDING "endbr64\n"
#else
#define LANDING ""
#endif
#define PLAIN(site) "incq " COUNTS "+8*" #site "(%rip)\n"
#define EXACT(site) "lock incq " COUNTS "+8*" #site "(%rip)\n"
#define UNLESS_APART "movq unperturbed_apart@gottpoff(%rip),%r11\ncmpl $0,%fs:(%r11)\njne 9f\n"
#define FUNCTION(index, name, counting) \
    __asm__(FUNCTION_BEGIN(name) LANDING UNLESS_APART counting \
            "9: jmp *" TABLE "+8*" #index "(%rip)\n.cfi_endproc\n" \
            "unperturbed_interposed_way_" #index ":\n.cfi_startproc\n" LANDING "pushq $" #index \
            "\n.cfi_adjust_cfa_offset 8\njmp unperturbed_interposed_find_and_go\n" FUNCTION_END(index, name))

/* Arguments are in rdi, rsi, rdx, rcx, r8, r9, in vector registers (their number is in al) and on the stack; r10 is the
 * frame of a nested function. */
#define VECTORS "0xe6" /* of XSAVE's parts: SSE, AVX, bounds, AVX-512; they end below byte 2688 */
__asm__(".text\n.type unperturbed_interposed_find_and_go,%function\nunperturbed_interposed_find_and_go:\n"
        ".cfi_startproc\n.cfi_def_cfa_offset 16\n"
        "pushq %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbp,-24\nmovq %rsp,%rbp\n.cfi_def_cfa_register %rbp\n"
        "pushq %rax\npushq %rcx\npushq %rdx\npushq %rsi\npushq %rdi\npushq %r8\npushq %r9\npushq %r10\n"
        "pushq %rbx\n.cfi_offset %rbx,-96\npushq %r12\n.cfi_offset %r12,-104\n"
        /* Whether the kernel has enabled XSAVE. */
        "movl $1,%eax\nxorl %ecx,%ecx\ncpuid\nmovl %ecx,%r12d\nandl $0x8000000,%r12d\n"
        "subq $2688,%rsp\nandq $-64,%rsp\n"
        "testl %r12d,%r12d\njz 1f\n"
        "xorl %eax,%eax\nmovq %rax,512(%rsp)\nmovq %rax,520(%rsp)\nmovq %rax,528(%rsp)\nmovq %rax,536(%rsp)\n"
        "movq %rax,544(%rsp)\nmovq %rax,552(%rsp)\nmovq %rax,560(%rsp)\nmovq %rax,568(%rsp)\n"
        "movl $" VECTORS ",%eax\nxorl %edx,%edx\nxsave (%rsp)\njmp 2f\n"
        "1: fxsave (%rsp)\n"
        "2: movl 8(%rbp),%edi\ncall unperturbed_interposed_find\nmovq %rax,%r11\n"
        "testl %r12d,%r12d\njz 3f\n"
        "movl $" VECTORS ",%eax\nxorl %edx,%edx\nxrstor (%rsp)\njmp 4f\n"
        "3: fxrstor (%rsp)\n"
        "4: leaq -80(%rbp),%rsp\n"
        "popq %r12\n.cfi_restore %r12\npopq %rbx\n.cfi_restore %rbx\npopq %r10\npopq %r9\npopq %r8\npopq %rdi\npopq "
        "%rsi\npopq %rdx\npopq %rcx\npopq %rax\n"
        "popq %rbp\n.cfi_def_cfa %rsp,16\n.cfi_restore %rbp\naddq $8,%rsp\n.cfi_adjust_cfa_offset -8\njmp "
        "*%r11\n.cfi_endproc\n"
        ".size unperturbed_interposed_find_and_go,.-unperturbed_interposed_find_and_go\n");

#else
#define LANDING "hint #34\n" /* bti c; a no-op on older processors */
#define PLACE(base, offset) "adrp x16," base "+8*" offset "\nadd x16,x16,:lo12:" base "+8*" offset "\n"
#define PLAIN(site) PLACE(COUNTS, #site) "ldr x17,[x16]\nadd x17,x17,#1\nstr x17,[x16]\n"
#if defined(__ARM_FEATURE_ATOMICS)
#define EXACT(site) PLACE(COUNTS, #site) "mov x17,#1\nstadd x17,[x16]\n"
#else /* w9 need not be preserved across a call */
#define EXACT(site) PLACE(COUNTS, #site) "1: ldxr x17,[x16]\nadd x17,x17,#1\nstxr w9,x17,[x16]\ncbnz w9,1b\n"
#endif
#define UNLESS_APART \
    "adrp x16,:gottprel:unperturbed_apart\nldr x16,[x16,:gottprel_lo12:unperturbed_apart]\n" \
    "mrs x17,tpidr_el0\nldr w16,[x17,x16]\ncbnz w16,9f\n"
#define FUNCTION(index, name, counting) \
    __asm__(FUNCTION_BEGIN(name) LANDING UNLESS_APART counting \
            "9:\n" PLACE(TABLE, #index) "ldr x16,[x16]\nbr x16\n.cfi_endproc\n" \
                                        "unperturbed_interposed_way_" #index ":\n.cfi_startproc\n" LANDING \
                                        "mov x17,#" #index \
                                        "\nb unperturbed_interposed_find_and_go\n" FUNCTION_END(index, name))

/* Arguments are in x0 to x7, x8 (address of a structure to return), q0 to q7 and on the stack. Functions that take
 * scalable vectors are not supported. */
__asm__(".text\n.type unperturbed_interposed_find_and_go,%function\nunperturbed_interposed_find_and_go:\n"
        ".cfi_startproc\n"
        "stp x29,x30,[sp,#-224]!\n.cfi_def_cfa_offset 224\n.cfi_offset 29,-224\n.cfi_offset 30,-216\nmov x29,sp\n"
        "stp x0,x1,[sp,#16]\nstp x2,x3,[sp,#32]\nstp x4,x5,[sp,#48]\nstp x6,x7,[sp,#64]\nstr x8,[sp,#80]\n"
        "stp q0,q1,[sp,#96]\nstp q2,q3,[sp,#128]\nstp q4,q5,[sp,#160]\nstp q6,q7,[sp,#192]\n"
        "mov x0,x17\nbl unperturbed_interposed_find\nmov x16,x0\n"
        "ldp q0,q1,[sp,#96]\nldp q2,q3,[sp,#128]\nldp q4,q5,[sp,#160]\nldp q6,q7,[sp,#192]\n"
        "ldp x0,x1,[sp,#16]\nldp x2,x3,[sp,#32]\nldp x4,x5,[sp,#48]\nldp x6,x7,[sp,#64]\nldr x8,[sp,#80]\n"
        "ldp x29,x30,[sp],#224\n.cfi_def_cfa_offset 0\n.cfi_restore 29\n.cfi_restore 30\nbr x16\n.cfi_endproc\n"
        ".size unperturbed_interposed_find_and_go,.-unperturbed_interposed_find_and_go\n");
#endif
