/* PAPI, loaded with dlopen: versions 5.7 to 7.2 share this part of the interface, and building needs no PAPI. */
#define _GNU_SOURCE
#include "../../runtime/common/sources.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAPI_VERSION_OF(major, minor) ((major) << 24 | (minor) << 16)
#define PAPI_NULL (-1)
#define PAPI_EINVAL (-1)
#define PAPI_ENOEVNT (-7)
#define PAPI_INHERIT 28

static struct {
    void *library;
    int version;
    int (*init)(int);
    int (*thread_init)(unsigned long (*)(void));
    int (*create)(int *);
    int (*assign)(int, int);
    int (*add)(int, const char *);
    int (*set)(int, void *);
    int (*attach)(int, unsigned long);
    int (*start)(int);
    int (*stop)(int, long long *);
    int (*reset)(int);
    int (*read)(int, long long *);
    int (*code)(const char *, int *);
    int (*describe)(int, void *);
    char *(*explain)(int);
    int (*component_number)(const char *);
    const char *(*component)(int);
} papi;

static int failed(struct unperturbed_header *header, int code, const char *what, const char *reason)
{
    header->error = code;
    snprintf(header->message, sizeof header->message, "%s: %s", what, reason ? reason : "no reason given");
    return -1;
}

/* Offset in PAPI_component_info_t of the reason why a component is disabled (may be empty), in versions 5.1 to 7.2. */
#define DISABLED_REASON 512

static int has_pmu(void)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = PERF_COUNT_HW_CPU_CYCLES;
    attr.exclude_kernel = attr.exclude_hv = attr.disabled = 1;
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0 || (errno != ENOENT && errno != EOPNOTSUPP);
}

/* The structure that PAPI_get_event_info fills in versions 6 and 7; `symbol` must be the requested name. */
struct papi_event_info {
    unsigned code;
    char symbol[1024];
    char short_description[64];
    char long_description[1024];
    int component;
    char units[64];
    int location, data_type, value_type, timescope, update_type, update_frequency;
    unsigned count;
    unsigned type;
    char derived[64];
    char postfix[256];
    unsigned codes[12];
    char name[12][256];
    char note[1024];
    char beyond[1 << 16]; /* a later version may write more */
};

static struct papi_event_info info;

/* Returns whether PAPI has the one event that every processor has. */
static int knows_cycles(void)
{
    int number = 0;
    memset(&info, 0, sizeof info);
    return papi.code("PAPI_TOT_CYC", &number) == 0 && papi.describe(number, &info) == 0 && info.count > 0;
}

/* Adds the underlying reason to PAPI's messages that a component is disabled or an event does not exist. A library that
 * does not support this processor reports the same as on a host without a PMU; the kernel is asked to distinguish the
 * two. */
static int refused(struct unperturbed_header *header, int code, const char *what)
{
    int number = papi.component_number("perf_event");
    const char *component = number < 0 ? NULL : papi.component(number);
    const char *behind = component ? component + DISABLED_REASON : "", *because = "";
    if (!has_pmu())
        because = "this host has no PMU that the kernel can use";
    else if (strstr(behind, "libpfm4"))
        because = "the processor is newer than this PAPI, which does not know its events";
    else if (code == PAPI_ENOEVNT && !knows_cycles())
        because = "this PAPI has no event of this processor: its libpfm may look for the PMU by another name than the "
                  "kernel gives it";
    failed(header, code, what, papi.explain(code));
    size_t length = strlen(header->message);
    if (*behind || *because)
        snprintf(header->message + length, sizeof header->message - length, " (%s%s%s)", behind,
                 *behind && *because ? ": " : "", because);
    return -1;
}

static unsigned long this_thread(void) { return (unsigned long)syscall(SYS_gettid); }

#ifdef UNPERTURBED_STATIC
static void *find_library(struct unperturbed_header *header) /* not in a static program */
{
    failed(header, -1, "libpapi", "not installed");
    return NULL;
}

static void *find_pfm(void) { return NULL; }
#else
/* PAPI takes its native events from libpfm, which is inside PAPI or one of the libraries that PAPI loads. */
static void *find_pfm(void)
{
    return dlsym(papi.library, "pfm_initialize") ? papi.library : dlopen("libpfm.so.4", RTLD_NOW | RTLD_LOCAL);
}

/* Loads the library that the header names; without a name, the newest that the dynamic linker finds. */
static void *find_library(struct unperturbed_header *header)
{
    static const char *const libraries[] = {"libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.7",
                                            "libpapi.so.6.0", "libpapi.so.6",   "libpapi.so"};
    void *library = NULL;
    if (header->papi[0]) {
        /* PAPI's Python wheel has undefined Python functions, which nothing here calls: lazy binding (and one undefined
         * object, which the observer defines). */
        if (!(library = dlopen(header->papi, RTLD_NOW | RTLD_LOCAL)) &&
            !(library = dlopen(header->papi, RTLD_LAZY | RTLD_LOCAL)))
            failed(header, -1, "libpapi", dlerror());
        return library;
    }
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries && !library; i++)
        library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        failed(header, -1, "libpapi", "not installed");
    return library;
}
#endif

/* Loads and initialises the library, once per process. Takes milliseconds: never called in a handler. */
static int load(struct unperturbed_header *header)
{
    static const int versions[] = {PAPI_VERSION_OF(7, 2), PAPI_VERSION_OF(7, 1), PAPI_VERSION_OF(7, 0),
                                   PAPI_VERSION_OF(6, 0), PAPI_VERSION_OF(5, 7)};
    if (papi.version > 0) {
        header->papi_version = (uint32_t)papi.version;
        return 0;
    }
    papi.library = find_library(header);
    if (!papi.library)
        return -1;
    const struct {
        void **function;
        const char *name;
    } wanted[] = {
        {(void **)&papi.init, "PAPI_library_init"},
        {(void **)&papi.thread_init, "PAPI_thread_init"},
        {(void **)&papi.create, "PAPI_create_eventset"},
        {(void **)&papi.assign, "PAPI_assign_eventset_component"},
        {(void **)&papi.add, "PAPI_add_named_event"},
        {(void **)&papi.set, "PAPI_set_opt"},
        {(void **)&papi.attach, "PAPI_attach"},
        {(void **)&papi.start, "PAPI_start"},
        {(void **)&papi.stop, "PAPI_stop"},
        {(void **)&papi.reset, "PAPI_reset"},
        {(void **)&papi.read, "PAPI_read"},
        {(void **)&papi.code, "PAPI_event_name_to_code"},
        {(void **)&papi.describe, "PAPI_get_event_info"},
        {(void **)&papi.explain, "PAPI_strerror"},
        {(void **)&papi.component_number, "PAPI_get_component_index"},
        {(void **)&papi.component, "PAPI_get_component_info"},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!(*wanted[i].function = dlsym(papi.library, wanted[i].name)))
            return failed(header, -1, "libpapi", "lacks functions that every version since 5 has");
    int version = -1;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions && version <= 0; i++)
        version = papi.init(versions[i]);
    if (version == PAPI_EINVAL)
        return failed(header, version, "PAPI_library_init",
                      "unsupported PAPI version: use one of 5.7, 6.0, 7.0, 7.1 and 7.2");
    if (version <= 0)
        return refused(header, version, "PAPI_library_init");
    papi.version = version;
    header->papi_version = (uint32_t)version;
    int code = papi.thread_init(this_thread);
    return code == 0 ? 0 : refused(header, code, "PAPI_thread_init");
}

/* PAPI counts only in user space unless the name has modifiers, and kernel events, such as context switches, never
 * occur there. Writes the name with libpfm's modifiers if the event must also be counted in the kernel. */
static const char *name_in_mode(const struct unperturbed_event *event, char *name, size_t size)
{
    int kernel = event->flags & 1, user = !(event->flags & 2);
    if (!kernel && user)
        return event->name;
    const char *modifier = strrchr(event->name, ':');
    int own = modifier && modifier[1] && modifier[1 + strspn(modifier + 1, "uk")] == '\0';
    int length = own ? (int)(modifier - event->name) : (int)strlen(event->name);
    snprintf(name, size, "%.*s:u=%d:k=%d", length, event->name, user, kernel);
    return name;
}

static int open_events(struct unperturbed_counters *counters, struct unperturbed_header *header, pid_t pid)
{
    counters->event_set = PAPI_NULL;
    if (load(header) != 0)
        return -1;
    int code = papi.create(&counters->event_set);
    if (code != 0)
        return refused(header, code, "PAPI_create_eventset");
    if (pid) {
        struct {
            int event_set;
            int inherit;
        } inherit = {counters->event_set, 1};
        if ((code = papi.assign(counters->event_set, 0)) != 0 || (code = papi.set(PAPI_INHERIT, &inherit)) != 0)
            return refused(header, code, "PAPI_INHERIT");
        if ((code = papi.attach(counters->event_set, (unsigned long)pid)) != 0)
            return refused(header, code, "PAPI_attach");
    }
    for (uint32_t i = 0; i < header->events; i++) {
        char name[sizeof header->event[i].name + sizeof ":u=1:k=1"];
        if ((code = papi.add(counters->event_set, name_in_mode(&header->event[i], name, sizeof name))) != 0)
            return refused(header, code, header->event[i].name);
    }
    code = papi.start(counters->event_set);
    return code == 0 ? 0 : refused(header, code, "PAPI_start");
}

/* One PAPI_read: 144 cycles if it reads in user space, otherwise up to 2,500; with OPTION_RESET, four such calls. */
static int read_events(struct unperturbed_counters *counters, struct unperturbed_record *record)
{
    long long value[UNPERTURBED_EVENTS];
    if (counters->options & OPTION_RESET) {
        if (papi.stop(counters->event_set, value) != 0 || papi.reset(counters->event_set) != 0 ||
            papi.start(counters->event_set) != 0)
            return -1;
        for (uint32_t i = 0; i < counters->events; i++)
            record->value[i] = counters->total[i] += value[i];
        return 0;
    }
    if (papi.read(counters->event_set, value) != 0)
        return -1;
    for (uint32_t i = 0; i < counters->events; i++)
        record->value[i] = value[i];
    return 0;
}

static void close_events(struct unperturbed_counters *counters)
{
    long long value[UNPERTURBED_EVENTS];
    papi.stop(counters->event_set, value);
    counters->events = 0;
}

/* PAPI_library_init notices that it runs in another process, and begins anew. PAPI_stop would stop the parent's
 * events, which the child has inherited. */
static void forget(struct unperturbed_counters *counters)
{
    papi.version = 0;
    counters->events = 0;
}

/* libpfm's structure, as in its manual page pfm_get_os_event_encoding(3). */
struct pfm_perf_argument {
    struct perf_event_attr *attr;
    char **name;
    size_t size;
    int index;
    int cpu;
    int flags;
    int pad;
};
#define PFM_OS_PERF_EVENT 1
#define PFM_PLM3 8

/* Encodes the events with the libpfm that this PAPI uses. */
static int encode(struct unperturbed_header *header)
{
    if (load(header) != 0)
        return -1;
    int (*initialise)(void) = NULL;
    int (*encode_native)(const char *, int, int, void *) = NULL;
    void *pfm = find_pfm();
    if (pfm) {
        *(void **)&initialise = dlsym(pfm, "pfm_initialize");
        *(void **)&encode_native = dlsym(pfm, "pfm_get_os_event_encoding");
    }
    if (!initialise || !encode_native || initialise() != 0)
        return 1;
    for (uint32_t i = 0; i < header->events; i++) {
        struct unperturbed_event *event = &header->event[i];
        const char *native = event->name;
        int number = 0, code = papi.code(event->name, &number);
        if (code != 0)
            return refused(header, code, event->name);
        if (strncmp(event->name, "PAPI_", 5) == 0) {
            memset(&info, 0, sizeof info);
            if ((code = papi.describe(number, &info)) != 0)
                return refused(header, code, event->name);
            if (strcmp(info.symbol, event->name) != 0 || info.count != 1 || strcmp(info.derived, "NOT_DERIVED") != 0)
                return 1;
            native = info.name[0];
        }
        struct perf_event_attr attr;
        struct pfm_perf_argument argument;
        memset(&attr, 0, sizeof attr);
        memset(&argument, 0, sizeof argument);
        attr.size = sizeof attr;
        argument.attr = &attr;
        argument.size = sizeof argument;
        if (encode_native(native, PFM_PLM3, PFM_OS_PERF_EVENT, &argument) != 0)
            return 1;
        event->type = attr.type;
        event->config = attr.config;
        event->config1 = attr.config1;
        event->config2 = attr.config2;
        event->flags &= 3; /* perf_event counts in the same modes that were requested from PAPI */
    }
    return 0;
}

const struct unperturbed_source unperturbed_papi = {
    open_events, read_events, close_events, encode, TRAIT_CANCELLATION_POINT, forget};
