/* Tries each of PAPI's presets and native events on this host. Works without papi.h, for versions 5.1 to 7.2. */
#define _GNU_SOURCE
#include "trials.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAPI_VERSION_OF(major, minor) ((major) << 24 | (minor) << 16)
#define PAPI_NULL (-1)
#define PAPI_EINVAL (-1)
#define PAPI_LIB_VERSION 21
#define PAPI_ENUM_EVENTS 0
#define PAPI_ENUM_FIRST 1
#define PAPI_PRESET_MASK ((int)0x80000000)
#define PAPI_NATIVE_MASK 0x40000000
#define PAPI_NAME 1024
#define PMUS 1024  /* more than libpfm has */
#define MASKS 4096 /* more than any event has: ends a circular enumeration */

/* The common beginning of PAPI_event_info_t in versions 5.1 to 7.2; the library fills its whole version of it. */
struct event_info {
    unsigned event_code;
    char symbol[1024];
    char short_descr[64];
    char long_descr[1024];
    int component_index;
    char units[64];
    char unknown[65536];
};

/* The common beginning of PAPI_component_info_t in versions 5.1 to 7.2. */
struct component_info {
    char name[128];
    char short_name[64];
    char description[128];
    char version[64];
    char support_version[64];
    char kernel_version[64];
    char disabled_reason[1024]; /* 128 bytes before 6.0: the text is terminated anyway */
};

/* PAPI's Python wheel takes the address of this object, and has undefined Python functions that nothing here calls. */
__attribute__((visibility("default"))) char _Py_NoneStruct[64];

static struct {
    void *library;
    int major;
    int (*init)(int);
    int (*components)(void);
    const struct component_info *(*component)(int);
    int (*enumerate)(int *, int);
    int (*enumerate_component)(int *, int, int);
    int (*name)(int, char *);
    int (*code)(const char *, int *);
    int (*info)(int, struct event_info *);
    int (*create)(int *);
    int (*destroy)(int *);
    int (*cleanup)(int);
    int (*add)(int, const char *);
    int (*start)(int);
    int (*stop)(int, long long *);
    int (*option)(int, void *);
    char *(*explain)(int);
} papi;

/* Loads and initialises PAPI once; writes the result in a `library` line. Returns 0, or -1 if PAPI cannot be used. */
static int load_papi(void)
{
    static const char *const libraries[] = {"libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.7",
                                            "libpapi.so.6.0", "libpapi.so.6",   "libpapi.so"};
    static const int versions[] = {PAPI_VERSION_OF(7, 2), PAPI_VERSION_OF(7, 1), PAPI_VERSION_OF(7, 0),
                                   PAPI_VERSION_OF(6, 0), PAPI_VERSION_OF(5, 7)};
    static int state = 1; /* 1: not tried */
    if (state <= 0)
        return state;
    state = -1;
    const char *given = getenv("UNPERTURBED_PAPI"), *problem = "libpapi is not installed";
    if (given && *given) {
        papi.library = dlopen(given, RTLD_LAZY | RTLD_LOCAL);
        problem = papi.library ? "" : dlerror();
    }
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries && !papi.library && !(given && *given); i++)
        papi.library = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!papi.library) {
        answer("library", "", problem, -1, "", "");
        return state;
    }
    const struct {
        void *place;
        const char *name;
    } wanted[] = {
        {&papi.init, "PAPI_library_init"},
        {&papi.components, "PAPI_num_components"},
        {&papi.component, "PAPI_get_component_info"},
        {&papi.enumerate, "PAPI_enum_event"},
        {&papi.enumerate_component, "PAPI_enum_cmp_event"},
        {&papi.name, "PAPI_event_code_to_name"},
        {&papi.code, "PAPI_event_name_to_code"},
        {&papi.info, "PAPI_get_event_info"},
        {&papi.create, "PAPI_create_eventset"},
        {&papi.destroy, "PAPI_destroy_eventset"},
        {&papi.cleanup, "PAPI_cleanup_eventset"},
        {&papi.add, "PAPI_add_named_event"},
        {&papi.start, "PAPI_start"},
        {&papi.stop, "PAPI_stop"},
        {&papi.option, "PAPI_get_opt"},
        {&papi.explain, "PAPI_strerror"},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *function = dlsym(papi.library, wanted[i].name);
        if (!function) {
            answer("library", "", "libpapi lacks functions that every version since 5.3 has", -1, wanted[i].name, "");
            return state;
        }
        memcpy(wanted[i].place, &function, sizeof function);
    }
    int version = -1;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions && version <= 0; i++)
        version = papi.init(versions[i]);
    if (version <= 0) {
        const char *reason = version == PAPI_EINVAL ? "unsupported PAPI version: use one of 5.7, 6.0, 7.0, 7.1 and 7.2"
                                                    : papi.explain(version);
        answer("library", "", reason ? reason : "PAPI_library_init fails", version, "PAPI_library_init", "");
        return state;
    }
    int whole = papi.option(PAPI_LIB_VERSION, NULL);
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", whole >> 24 & 0xff, whole >> 16 & 0xff, whole >> 8 & 0xff);
    answer("library", text, "ok", 0, "", "");
    return state = 0;
}

static const char *papi_reason(int code)
{
    const char *reason = papi.explain(code);
    return reason && *reason ? reason : "refused";
}

/* Adding an event opens it, so what can be added can be counted. */
static int try_papi_name(const char *name)
{
    int set = PAPI_NULL;
    int code = papi.create(&set);
    if (code != 0)
        return code;
    code = papi.add(set, name);
    papi.cleanup(set);
    papi.destroy(&set);
    return code;
}

static void answer_papi(const char *what, const char *name, const struct event_info *info)
{
    int code = try_papi_name(name);
    const char *description = info->long_descr[0] ? info->long_descr : info->short_descr;
    answer(what, name, code == 0 ? "ok" : papi_reason(code), code, description, info->units);
}

/* libpfm 4's description of a PMU (pfm_pmu_info_t, its first ABI). */
struct pmu_info {
    const char *name;
    const char *desc;
    size_t size;
    int numbers[7];
    unsigned present : 1;
    unsigned others : 31;
};

/* Adds the PMU to a native event's name: a spec uses `pmu::EVENT`, but PAPI lists the events of the processor's default
 * PMU without the PMU. Returns 0 if the event's PMU is unknown. */
static int qualify(const char *event, char *name, size_t size)
{
    static int (*describe)(int, struct pmu_info *);
    if (!describe) {
        /* libpfm comes with PAPI: inside it, or as a library that it needs. */
        void *function = dlsym(papi.library, "pfm_get_pmu_info");
        memcpy(&describe, &function, sizeof function);
    }
    for (int i = 0; describe && i < PMUS; i++) {
        struct pmu_info info;
        int code;
        memset(&info, 0, sizeof info);
        if (describe(i, &info) != 0 || !info.present || !info.name)
            continue;
        snprintf(name, size, "%s::%s", info.name, event);
        if (papi.code(name, &code) == 0)
            return 1;
    }
    return 0;
}

static void answer_native(int code)
{
    static struct event_info info;
    char name[PAPI_NAME] = "", full[PAPI_NAME + 128];
    memset(&info, 0, sizeof info);
    if (papi.name(code, name) != 0 || strchr(name, '=') || papi.info(code, &info) != 0)
        return;
    answer_papi("native", !strstr(name, "::") && qualify(name, full, sizeof full) ? full : name, &info);
}

static void enumerate_presets(void)
{
    static struct event_info info;
    int code = PAPI_PRESET_MASK;
    int more = papi.enumerate(&code, PAPI_ENUM_FIRST);
    for (; more == 0; more = papi.enumerate(&code, PAPI_ENUM_EVENTS)) {
        char name[PAPI_NAME] = "";
        memset(&info, 0, sizeof info);
        if (papi.name(code, name) == 0 && papi.info(code, &info) == 0)
            answer_papi("preset", name, &info);
    }
}

/* Tries a native event with each of its unit masks; libpfm's attributes with values (`:period=0`) are not masks. */
static void enumerate_masks(int event, int component)
{
    /* PAPI_NTV_ENUM_UMASKS up to 7.1, and from 7.2 on, where presets take more numbers before it. Other numbers are
     * refused for native events. */
    static const int modes[] = {15, 18};
    int code = event, more = -1;
    unsigned mode = 0;
    while (more != 0 && mode < sizeof modes / sizeof *modes) {
        code = event;
        more = papi.enumerate_component(&code, modes[mode++], component);
    }
    for (int masks = 0; more == 0 && masks < MASKS;
         masks++, more = papi.enumerate_component(&code, modes[mode - 1], component))
        if (code != event)
            answer_native(code);
}

/* If debugfs is mounted, libpfm lists tracepoint subsystems as events of its PMU `perf`, in lower case. There are
 * thousands, and the kernel takes about 40 ms to close one. They are listed for perf_event instead. */
static int is_tracepoint(int event)
{
    char name[PAPI_NAME] = "";
    if (papi.name(event, name) != 0 || strncmp(name, "perf::", 6) != 0)
        return 0;
    for (const char *letter = name + 6; *letter; letter++)
        if (*letter >= 'a' && *letter <= 'z')
            return 1;
    return 0;
}

static void enumerate_natives(int component, int masked)
{
    int code = PAPI_NATIVE_MASK;
    int more = papi.enumerate_component(&code, PAPI_ENUM_FIRST, component);
    for (; more == 0; more = papi.enumerate_component(&code, PAPI_ENUM_EVENTS, component)) {
        if (masked && is_tracepoint(code))
            continue;
        answer_native(code);
        if (masked)
            enumerate_masks(code, component);
    }
}

void enumerate_papi(void)
{
    if (load_papi() != 0)
        return;
    for (int i = 0; i < papi.components(); i++) {
        const struct component_info *info = papi.component(i);
        if (info)
            answer("component", info->name, info->disabled_reason[0] ? info->disabled_reason : "ok", i,
                   info->description, "");
    }
    enumerate_presets();
    for (int i = 0; i < papi.components(); i++) {
        const struct component_info *info = papi.component(i);
        enumerate_natives(i, info && strncmp(info->name, "perf_event", 10) == 0);
    }
}

void try_papi(const char *name)
{
    if (load_papi() != 0)
        return;
    int code = try_papi_name(name);
    answer("papi", name, code == 0 ? "ok" : papi_reason(code), code, "", "");
}

/* Adds one event after another, leaving out those that do not fit together with the others: a preset may need several
 * counters. */
void fit_papi(char *arguments)
{
    long long values[GROUP];
    int set = PAPI_NULL, count = 0, last = 0, refused = 0;
    if (load_papi() != 0 || papi.create(&set) != 0)
        return;
    for (char *name = strtok(arguments, " "); name && count < GROUP; name = strtok(NULL, " ")) {
        int code = papi.add(set, name);
        if (code == 0) {
            code = papi.start(set);
            if (code == 0) {
                work_a_moment();
                code = papi.stop(set, values);
            }
            if (code != 0) { /* added, but not counted: it would prevent counting the others */
                last = code;
                refused++;
                break;
            }
        }
        if (code == 0) {
            count++;
        } else {
            refused++;
            last = code;
        }
    }
    if (count)
        answer("papi-fit", "papi", "ok", count, refused ? papi_reason(last) : "all that were tried", "");
    else
        answer("papi-fit", "papi", papi_reason(last), last, "", "");
    papi.cleanup(set);
    papi.destroy(&set);
}
