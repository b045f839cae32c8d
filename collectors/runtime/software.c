/* Software counters: the tables that instrumented code registers, and their pages shared with an observer.
 *
 * Counters are plain words in the program's own memory. The inside sampler reads them there. For an observer the pages that hold them are replaced, before
 * any instrumented code runs, by pages of the observer's memory: the program counts as before, and another process sees it.
 */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct unperturbed_table *tables;   /* pushed before main and by dlopen; read by the handler */
static uint32_t metrics;                   /* the greatest that any table names, + 1 */
static struct unperturbed_module *modules; /* pushed in the same way */
static struct unperturbed_counters_area *area;
static int kept; /* this is a child whose counters are its own */

static int is_own_run(void) { return unperturbed_header && unperturbed_header->owner == (uint64_t)getpid(); }

static int is_shared_run(void) { return is_own_run() && (unperturbed_header->options & OPTION_OUTSIDE); }

/* A library that the program opened stays loaded, though it be closed: its counters are read to the end, by the handler at any moment. */
static void keep_loaded(const void *counters)
{
#ifndef UNPERTURBED_STATIC
    Dl_info library;
    if (!is_own_run() || unperturbed_header->state != STATE_ATTACHED || !dladdr(counters, &library))
        return;
    if (!dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE))
        dlerror(); /* the program shall not find it */
#else
    (void)counters;
#endif
}

/* The observer's memory, by way of its process: a descriptor that was passed down could be closed on the way, or lie above a limit. */
static int map_area(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", unperturbed_header->observer, unperturbed_header->counters_fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return unperturbed_fail("the observer's memory cannot be opened");
    void *map = mmap(NULL, sizeof *area, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED) {
        close(fd);
        return unperturbed_fail("the observer's memory cannot be mapped");
    }
    area = map;
    return fd;
}

/* Puts the observer's pages in place of a module's own, content kept. Costs two system calls and a copy, once. */
static int share(struct unperturbed_module *module)
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
        unperturbed_fail("more software counters than the observer has room for");
    } else {
        memcpy((char *)area->slot + module->place, module->first, bytes);
        off_t offset = (off_t)(offsetof(struct unperturbed_counters_area, slot) + module->place);
        if (mmap(module->first, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, offset) == MAP_FAILED)
            unperturbed_fail("the counters' pages cannot be shared");
        else
            result = 0;
    }
    close(fd);
    module->shared = result == 0;
    return result;
}

/* Tells the observer which metric each of a table's slots belongs to. */
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
    keep_loaded(table);
    for (uint32_t site = 0; site < table->sites; site++)
        if (table->metric[site] >= metrics)
            metrics = table->metric[site] + 1;
    struct unperturbed_table *head = __atomic_load_n(&tables, __ATOMIC_RELAXED);
    do
        table->next = head;
    while (!__atomic_compare_exchange_n(&tables, &head, table, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    if (is_own_run())
        __atomic_fetch_add(&unperturbed_header->tables, 1, __ATOMIC_RELAXED);
    if (is_shared_run())
        publish(table);
}

/* Called for the executable before any library is set up, for a library before its other constructors. */
void unperturbed_register_module(struct unperturbed_module *module, char **environment)
{
    keep_loaded(module);
    struct unperturbed_module *head = __atomic_load_n(&modules, __ATOMIC_RELAXED);
    do
        module->next = head;
    while (!__atomic_compare_exchange_n(&modules, &head, module, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
    unperturbed_claim(environment);
    if (is_shared_run() && share(module) != 0)
        __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
}

/* A child counts for itself: its pages become its own again. A child by a bare system call does not come by here; it is told by its pid. */
static void keep_to_itself(void)
{
    kept = 1;
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
}

void unperturbed_watch_forks(void)
{
    if (is_shared_run() && !(unperturbed_header->options & OPTION_CHILDREN))
        pthread_atfork(NULL, NULL, keep_to_itself);
}

int unperturbed_counts_elsewhere(void)
{
    for (const struct unperturbed_module *module = modules; module; module = module->next)
        if (module->shared)
            return !kept && unperturbed_header->owner != (uint64_t)getpid() && !(unperturbed_header->options & OPTION_CHILDREN);
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

/* Four sites a turn: this is most of what a record costs in the program. In the order of the sites, on which a reader may rely. */
static void add_table(const struct unperturbed_table *table, int64_t *value)
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

/* The same of a build with more metrics than the run records. */
static APART void add_part(const struct unperturbed_table *table, uint32_t software, int64_t *value)
{
    for (uint32_t site = 0; site < table->sites; site++)
        if (table->metric[site] < software)
            value[table->metric[site]] += (int64_t)__atomic_load_n(&table->counts[site], __ATOMIC_RELAXED);
}

void unperturbed_read_software(int64_t *value, uint32_t software)
{
    const struct unperturbed_table *table = __atomic_load_n(&tables, __ATOMIC_ACQUIRE);
    if (software >= metrics)
        for (; table; table = table->next)
            add_table(table, value);
    else
        for (; table; table = table->next)
            add_part(table, software, value);
}
