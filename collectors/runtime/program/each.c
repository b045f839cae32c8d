/* Threads one by one (OPTION_EACH): the role of each thread, and the threads that the main thread's tick also records.
 *
 * Roles are lines of a text file beside the record file, `<record>.threads`, written by each thread at its beginning
 * and end: three system calls, and none at a sample. Fields are separated by tabs; `collectors/records/roles.py` reads
 * them. No descriptor stays open, because programs close those that they do not know.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LONGEST_WAIT_NS 200000000

#ifdef UNPERTURBED_STATIC
extern const char __ehdr_start[] __attribute__((visibility("hidden"))); /* defined by the linker */
#endif

static uint64_t created; /* threads that got a sampler, in the order of their creation */
static __thread uint32_t own_number __attribute__((tls_model("initial-exec")));

static struct unperturbed_member *members; /* running threads apart from the main one */
static int members_lock;

int unperturbed_counts_each(void) { return !!(unperturbed_header->options & OPTION_EACH); }

void unperturbed_conceive(struct unperturbed_birth *birth, const void *start, const void *argument)
{
    birth->start = start;
    birth->argument = argument;
    birth->creator = own_number;
    birth->order = __atomic_fetch_add(&created, 1, __ATOMIC_RELAXED);
}

static void write_line(const char *line, int length)
{
    char path[UNPERTURBED_PATH + 16];
    snprintf(path, sizeof path, "%s.threads", unperturbed_own_path());
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)length) != length)
        unperturbed_mark(MARK_UNNAMED);
    if (fd >= 0)
        close(fd);
}

/* Writes "<file>\t<offset>\t<symbol>" for an address: the offset is from the file's first byte in memory, the symbol
 * that of an exported function, or empty. */
static void describe(char *text, size_t room, const void *address)
{
#ifndef UNPERTURBED_STATIC
    Dl_info found;
    if (address && dladdr(address, &found) && found.dli_fname) {
        snprintf(text, room, "%s\t%lx\t%s", found.dli_fname,
                 (unsigned long)((const char *)address - (const char *)found.dli_fbase),
                 found.dli_sname && found.dli_saddr == address ? found.dli_sname : "");
        return;
    }
#else
    if (address) { /* only the program itself */
        char file[UNPERTURBED_PATH];
        ssize_t length = readlink("/proc/self/exe", file, sizeof file - 1);
        file[length < 0 ? 0 : length] = 0;
        snprintf(text, room, "%s\t%lx\t", file, (unsigned long)((const char *)address - __ehdr_start));
        return;
    }
#endif
    snprintf(text, room, "\t%lx\t", (unsigned long)(uintptr_t)address);
}

/* std::thread starts every thread in one function of libstdc++, whose argument is an object of a class of its own for
 * each function that a program starts so. The class is known by the object's first word. */
static const void *class_of(const struct unperturbed_birth *birth, const char *start)
{
    return strstr(start, "/libstdc++") && birth->argument ? *(const void *const *)birth->argument : NULL;
}

void unperturbed_write_birth(uint32_t number, int thread_id, const struct unperturbed_birth *birth)
{
    char line[3 * UNPERTURBED_PATH], start[UNPERTURBED_PATH + 300], class[UNPERTURBED_PATH + 300];
    own_number = number;
    if (!birth) {
        write_line(line, snprintf(line, sizeof line, "begin\t%u\t%d\t0\t0\t\t0\t\t\t0\t\n", number, thread_id));
        return;
    }
    describe(start, sizeof start, birth->start);
    describe(class, sizeof class, class_of(birth, start));
    int length = snprintf(line, sizeof line, "begin\t%u\t%d\t%u\t%lu\t%s\t%s\n", number, thread_id, birth->creator,
                          (unsigned long)birth->order + 1, start, class);
    write_line(line, length < (int)sizeof line ? length : (int)sizeof line);
}

/* A thread's name, which it may have got at any time. */
void unperturbed_write_end(uint32_t number)
{
    char line[64], name[16] = "";
    prctl(PR_GET_NAME, name, 0, 0, 0);
    for (char *at = name; *at; at++)
        if (*at == '\t' || *at == '\n')
            *at = ' ';
    write_line(line, snprintf(line, sizeof line, "end\t%u\t%.15s\n", number, name));
}

/* No handler takes this lock but the main thread's under the simulator, and the main thread does not hold it then. */
static void lock(void)
{
    while (__atomic_exchange_n(&members_lock, 1, __ATOMIC_ACQUIRE))
        sched_yield();
}

static void unlock(void) { __atomic_store_n(&members_lock, 0, __ATOMIC_RELEASE); }

void unperturbed_join(struct unperturbed_member *member, int thread_id)
{
    member->thread_id = thread_id;
    member->thread_pointer = unperturbed_thread_pointer();
    lock();
    member->next = members;
    members = member;
    unlock();
}

void unperturbed_leave(struct unperturbed_member *member)
{
    lock();
    for (struct unperturbed_member **at = &members; *at; at = &(*at)->next)
        if (*at == member) {
            *at = member->next;
            break;
        }
    unlock();
}

int unperturbed_is_awaited(struct unperturbed_member *member)
{
    return __atomic_load_n(&member->awaited, __ATOMIC_ACQUIRE) == 1;
}

void unperturbed_is_recorded(struct unperturbed_member *member)
{
    __atomic_store_n(&member->awaited, 2, __ATOMIC_RELEASE);
}

/* Threads that still run when the process ends would lose their counts since their last tick: makes each write a last
 * record, and waits for it, unless the thread blocks the signal or does not run for long. */
void unperturbed_await_members(int signal)
{
    int64_t until = unperturbed_nanoseconds(CLOCK_MONOTONIC) + LONGEST_WAIT_NS;
    lock();
    for (struct unperturbed_member *member = members; member; member = member->next) {
        __atomic_store_n(&member->awaited, 1, __ATOMIC_RELEASE);
        syscall(SYS_tgkill, getpid(), member->thread_id, signal);
    }
    for (struct unperturbed_member *member = members; member; member = member->next)
        while (unperturbed_is_awaited(member) && unperturbed_nanoseconds(CLOCK_MONOTONIC) < until)
            sched_yield();
    unlock();
}

void unperturbed_forget_members(void)
{
    members = NULL;
    members_lock = 0;
    created = 0;
}

void unperturbed_record_members(const struct unperturbed_record *tick, uint64_t tick_position)
{
    struct unperturbed_header *header = unperturbed_header;
    lock();
    for (const struct unperturbed_member *member = members; member; member = member->next) {
        uint64_t position;
        struct unperturbed_record *record = unperturbed_take(header, &position);
        if (!record)
            break;
        record->thread = member->number;
        record->tick = (uint32_t)tick_position + 1;
        record->monotonic_ns = tick->monotonic_ns;
        record->cpu_ns = tick->cpu_ns;
        unperturbed_read_software_of(member->thread_pointer, record->value + header->events + header->os_values,
                                     header->software);
        unperturbed_commit(record, position);
    }
    unlock();
}
