/* Software counters: the tables that instrumented code registers, and their pages shared with an observer; and gauges,
 * which are variables of the program.
 *
 * Counters are plain words in the program's memory, where the inside sampler reads them. For an observer, their pages
 * are replaced by pages of the observer's memory before any instrumented code runs: the program counts as before, and
 * the observer can read the counters. Gauges stay in place: the observer receives their addresses, and reads the
 * program's memory.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct unperturbed_table *tables;   /* pushed before main and by dlopen; read by the handler */
static uint32_t metrics;                   /* the largest metric number in any table, + 1 */
static struct unperturbed_module *modules; /* pushed in the same way */
/* If a run records at least this many metrics and no gauges, only the tables are read. */
static uint32_t simple_from;
#define PER_THREAD 2 /* version of a table whose `counts` is a distance from the thread pointer, once registered */
static struct unperturbed_counters_area *area;
static uint64_t token; /* shows the observer that this is still the image that registered the gauges */
static int kept;       /* whether this is a child with its own counters */

static int is_shared_run(void) { return unperturbed_is_counted() && (unperturbed_header->options & OPTION_OUTSIDE); }

/* Keeps a library that the program opened loaded, even if the program closes it: the handler may read its counters at
 * any time, until the end. */
static void keep_loaded(const void *counters)
{
#ifndef UNPERTURBED_STATIC
    Dl_info library;
    if (!unperturbed_is_counted() || unperturbed_header->state != STATE_ATTACHED || !dladdr(counters, &library))
        return;
    if (!dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
        dlerror(); /* hide the error from the program */
#else
    (void)counters;
#endif
}

/* Maps the observer's memory through its /proc entry: an inherited descriptor could be closed before, or exceed a
 * limit. */
static int map_area(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", unperturbed_header->observer, unperturbed_header->counters_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return unperturbed_fail("cannot open the observer's memory");
    if (area)
        return fd;
    void *map = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        close(fd);
        return unperturbed_fail("cannot map the observer's memory");
    }
    area = map;
    return fd;
}

/* Replaces a module's pages by the observer's: two system calls, and one copy unless a child begins at 0. */
static int share(struct unperturbed_module *module, int is_child)
{
    size_t bytes = (size_t)(module->last - module->first);
    if (bytes == 0)
        return 0;
    if ((uintptr_t)module->first % UNPERTURBED_PAGE || bytes % UNPERTURBED_PAGE) {
        errno = EINVAL;
        return unperturbed_fail("the linker did not keep the counters in pages of their own");
    }
    int fd = map_area();
    if (fd < 0)
        return -1;
    module->place = __atomic_fetch_add(&area->used, bytes, __ATOMIC_RELAXED);
    int result = -1;
    if (module->place + bytes > sizeof area->slot) {
        errno = ENOSPC;
        unperturbed_fail("the observer has no room for so many software counters");
    } else {
        if (!is_child)
            memcpy((char *)area->slot + module->place, module->first, bytes);
        off_t offset = (off_t)(offsetof(struct unperturbed_counters_area, slot) + module->place);
        if (mmap(module->first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
            unperturbed_fail("cannot share the pages of the counters");
        else
            result = 0;
    }
    close(fd);
    module->shared = result == 0;
    return result;
}

/* Writes the metric of each of a table's slots for the observer. */
static void publish(const struct unperturbed_table *table)
{
    for (const struct unperturbed_module *module = modules; module; module = module->next) {
        char *counts = (char *)table->counts;
        if (!module->shared || counts < module->first || counts + table->sites * sizeof(uint64_t) > module->last)
            continue;
        uint64_t slot = (module->place + (uint64_t)(counts - module->first)) / sizeof(uint64_t);
        for (uint32_t site = 0; site < table->sites; site++)
            __atomic_store_n(&area->metric[slot + site], table->metric[site] + 1, __ATOMIC_RELAXED);
        return;
    }
    unperturbed_mark(MARK_UNSHARED);
}

void unperturbed_register(struct unperturbed_table *table)
{
    unperturbed_apart++;
    keep_loaded(table);
    for (uint32_t site = 0; site < table->sites; site++)
        if (table->metric[site] >= metrics)
            metrics = table->metric[site] + 1;
    if (table->version == PER_THREAD) {
        table->counts = (uint64_t *)((const char *)table->counts - unperturbed_thread_pointer());
        simple_from = UINT32_MAX;
    }
    if (simple_from < metrics)
        simple_from = metrics;
    struct unperturbed_table *head = __atomic_load_n(&tables, __ATOMIC_RELAXED);
    do
        table->next = head;
    while (!__atomic_compare_exchange_n(&tables, &head, table, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    if (unperturbed_is_counted())
        __atomic_fetch_add(&unperturbed_header->tables, 1, __ATOMIC_RELAXED);
    if (is_shared_run())
        publish(table);
    unperturbed_apart--;
}

/* Returns whether an earlier entry has the same variable and metric: an inline variable in a header or a common
 * variable has an entry in each translation unit. */
static int is_told(const struct unperturbed_module *module, const struct unperturbed_gauge *gauge)
{
    const struct unperturbed_gauge *end = gauge;
    for (; module; module = module->next, end = module ? module->gauges_end : NULL)
        for (const struct unperturbed_gauge *other = module->gauges; other < end; other++)
            if (other->address == gauge->address && other->metric == gauge->metric)
                return 1;
    return 0;
}

/* Runs before the module is pushed: from then on, the handler reads its gauges. */
static uint64_t take_gauges(struct unperturbed_module *module)
{
    uint64_t taken = 0;
    module->next = __atomic_load_n(&modules, __ATOMIC_ACQUIRE);
    for (struct unperturbed_gauge *gauge = module->gauges; gauge < module->gauges_end; gauge++, taken++)
        if (is_told(module, gauge))
            gauge->bytes = 0;
    return taken;
}

/* Writes the addresses of a module's gauges for the observer: their values stay in the program's memory. */
static int publish_gauges(const struct unperturbed_module *module)
{
    if (module->gauges == module->gauges_end || unperturbed_header->owner != (uint64_t)getpid())
        return 0; /* the observer reads variables of the first process only */
    int fd = map_area();
    if (fd < 0)
        return -1;
    close(fd);
    token = UNPERTURBED_TOKEN;
    __atomic_store_n(&area->token, (uint64_t)(uintptr_t)&token, __ATOMIC_RELEASE);
    for (const struct unperturbed_gauge *gauge = module->gauges; gauge < module->gauges_end; gauge++) {
        if (gauge->bytes == 0)
            continue;
        uint64_t place = __atomic_fetch_add(&area->gauges, 1, __ATOMIC_RELAXED);
        if (place >= UNPERTURBED_GAUGES) {
            errno = ENOSPC;
            return unperturbed_fail("the observer has no room for so many gauges");
        }
        struct unperturbed_shared_gauge *shared = &area->gauge[place];
        shared->address = (uint64_t)(uintptr_t)gauge->address;
        shared->bytes = gauge->bytes;
        shared->is_signed = gauge->is_signed;
        __atomic_store_n(&shared->metric, gauge->metric + 1, __ATOMIC_RELEASE);
    }
    return 0;
}

/* Saves values that the observer cannot read once the program has ended. If the program does not end through exit(3),
 * the values read last remain. */
static void leave_values(void)
{
    if (!is_shared_run() || !area || area->token != (uint64_t)(uintptr_t)&token ||
        unperturbed_header->owner != (uint64_t)getpid())
        return;
    uint64_t count = __atomic_load_n(&area->gauges, __ATOMIC_RELAXED);
    for (uint64_t place = 0; place < count && place < UNPERTURBED_GAUGES; place++) {
        struct unperturbed_shared_gauge *gauge = &area->gauge[place];
        if (__atomic_load_n(&gauge->metric, __ATOMIC_ACQUIRE))
            gauge->last =
                unperturbed_gauge_value((const void *)(uintptr_t)gauge->address, gauge->bytes, gauge->is_signed);
    }
    __atomic_store_n(&area->ended, 1, __ATOMIC_RELEASE);
}

__attribute__((destructor(101))) static void leave_last_values(void)
{
    unperturbed_apart++;
    leave_values();
    unperturbed_apart--;
}

/* Called for the executable before any library is initialised, and for a library before its other constructors. */
void unperturbed_register_module(struct unperturbed_module *module, char **environment)
{
    unperturbed_apart++;
    keep_loaded(module);
    uint64_t taken = take_gauges(module);
    struct unperturbed_module *head = __atomic_load_n(&modules, __ATOMIC_RELAXED);
    do
        module->next = head;
    while (!__atomic_compare_exchange_n(&modules, &head, module, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    if (taken)
        __atomic_store_n(&simple_from, UINT32_MAX, __ATOMIC_RELEASE);
    unperturbed_claim(environment);
    if (is_shared_run() && (share(module, 0) != 0 || publish_gauges(module) != 0))
        __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
    unperturbed_apart--;
}

/* Gives a child its own counters and pages again. A child created by a direct system call does not call this; it is
 * recognised by its pid. */
static void keep_to_itself(void)
{
    kept = 1;
    unperturbed_apart++;
    for (const struct unperturbed_module *module = modules; module; module = module->next) {
        size_t bytes = (size_t)(module->last - module->first);
        if (!module->shared)
            continue;
        void *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (own != MAP_FAILED)
            memcpy(own, module->first, bytes);
        if (own == MAP_FAILED || mremap(own, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, module->first) == MAP_FAILED)
            unperturbed_mark(MARK_SHARED_FORK);
    }
    unperturbed_apart--;
}

/* Gives a child counters of its own in the observer's memory, which begin at 0. */
static void share_in_child(void)
{
    for (struct unperturbed_module *module = modules; module; module = module->next)
        if (module->shared && share(module, 1) != 0)
            unperturbed_mark(MARK_UNSHARED);
    for (const struct unperturbed_table *table = tables; table; table = table->next)
        publish(table);
}

void unperturbed_share_after_fork(void)
{
    if (!(unperturbed_header->options & OPTION_CHILDREN))
        keep_to_itself();
    else if (unperturbed_claim_in_child() == 0)
        share_in_child();
}

int unperturbed_counts_elsewhere(void)
{
    for (const struct unperturbed_module *module = modules; module; module = module->next)
        if (module->shared)
            return !kept && unperturbed_header->owner != (uint64_t)getpid() &&
                   !(unperturbed_header->options & OPTION_CHILDREN);
    return 0;
}

uint64_t unperturbed_tables(void)
{
    uint64_t count = 0;
    for (const struct unperturbed_table *table = tables; table; table = table->next)
        count++;
    return count;
}

#define ADD(site) value[metric[site]] += (int64_t)__atomic_load_n(&count[site], __ATOMIC_RELAXED)

/* Four sites per iteration: this loop is most of a record's cost in the program. Readers may rely on the order of the
 * sites. */
static inline __attribute__((always_inline)) void add_table(const struct unperturbed_table *table, int64_t *value)
{
    const uint32_t *metric = table->metric, *end = metric + table->sites;
    const uint64_t *count = table->counts;
    if (table->sites & 1) {
        ADD(0);
        metric++, count++;
    }
    if (table->sites & 2) {
        ADD(0);
        ADD(1);
        metric += 2, count += 2;
    }
    for (; metric != end; metric += 4, count += 4) {
        ADD(0);
        ADD(1);
        ADD(2);
        ADD(3);
    }
}

/* The same for a build with more metrics than the run records, and for counts of one thread. */
static void add_part(const struct unperturbed_table *table, const uint64_t *count, uint32_t software, int64_t *value)
{
    for (uint32_t site = 0; site < table->sites; site++)
        if (table->metric[site] < software)
            value[table->metric[site]] += (int64_t)__atomic_load_n(&count[site], __ATOMIC_RELAXED);
}

/* Reads gauges too: about 10 instructions each. A separate function: programs without gauges do not pay a
 * comparison. */
static APART void read_all(const struct unperturbed_table *table, uint32_t software, int64_t *value)
{
    const char *thread_pointer = unperturbed_thread_pointer();
    for (; table; table = table->next)
        if (table->version == PER_THREAD)
            add_part(table, (const uint64_t *)(thread_pointer + (intptr_t)table->counts), software, value);
        else if (software >= metrics)
            add_table(table, value);
        else
            add_part(table, table->counts, software, value);
    for (const struct unperturbed_module *module = __atomic_load_n(&modules, __ATOMIC_ACQUIRE); module;
         module = module->next)
        for (const struct unperturbed_gauge *gauge = module->gauges; gauge < module->gauges_end; gauge++)
            if (gauge->bytes && gauge->metric < software)
                value[gauge->metric] += unperturbed_gauge_value(gauge->address, gauge->bytes, gauge->is_signed);
}

void unperturbed_read_software(int64_t *value, uint32_t software)
{
    const struct unperturbed_table *table = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
    if (software < __atomic_load_n(&simple_from, __ATOMIC_RELAXED)) {
        read_all(table, software, value);
        return;
    }
    for (; table; table = table->next)
        add_table(table, value);
}

/* The counts of another thread, which must not end meanwhile. */
void unperturbed_read_software_of(const char *thread_pointer, int64_t *value, uint32_t software)
{
    for (const struct unperturbed_table *table = __atomic_load_n(&tables, __ATOMIC_ACQUIRE); table; table = table->next)
        if (table->version == PER_THREAD)
            add_part(table, (const uint64_t *)(thread_pointer + (intptr_t)table->counts), software, value);
}
