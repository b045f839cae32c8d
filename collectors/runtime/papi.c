/* PAPI by dlopen: versions 5 to 7 share this part of the interface, and a program needs no PAPI to be built. */
#define _GNU_SOURCE
#include "sources.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define PAPI_VERSION_OF(major, minor) ((major) << 24 | (minor) << 16)
#define PAPI_NULL (-1)

static int event_set = PAPI_NULL;
static int (*papi_read)(int, long long *);

static int failed(struct unperturbed_header *header, int code, const char *what, const char *reason)
{
    header->error = code;
    snprintf(header->message, sizeof header->message, "%s: %s", what, reason ? reason : "no reason given");
    return -1;
}

int unperturbed_papi_open(struct unperturbed_header *header)
{
    static const char *const libraries[] = {"libpapi.so.7.2", "libpapi.so.7.1", "libpapi.so.7.0", "libpapi.so.7",
                                            "libpapi.so.6.0", "libpapi.so.6",   "libpapi.so"};
    static const int versions[] = {PAPI_VERSION_OF(7, 2), PAPI_VERSION_OF(7, 1), PAPI_VERSION_OF(7, 0), PAPI_VERSION_OF(6, 0),
                                   PAPI_VERSION_OF(5, 7)};
    void *papi = NULL;
    for (unsigned i = 0; i < sizeof libraries / sizeof *libraries && !papi; i++)
        papi = dlopen(libraries[i], RTLD_NOW | RTLD_LOCAL);
    if (!papi)
        return failed(header, -1, "libpapi", "not installed");

    int (*init)(int);
    int (*create)(int *);
    int (*add)(int, const char *);
    int (*start)(int);
    char *(*explain)(int);
    *(void **)&init = dlsym(papi, "PAPI_library_init");
    *(void **)&create = dlsym(papi, "PAPI_create_eventset");
    *(void **)&add = dlsym(papi, "PAPI_add_named_event");
    *(void **)&start = dlsym(papi, "PAPI_start");
    *(void **)&explain = dlsym(papi, "PAPI_strerror");
    *(void **)&papi_read = dlsym(papi, "PAPI_read");
    if (!init || !create || !add || !start || !explain || !papi_read)
        return failed(header, -1, "libpapi", "lacks functions that every version since 5 has");

    int version = -1;
    for (unsigned i = 0; i < sizeof versions / sizeof *versions && version <= 0; i++)
        version = init(versions[i]);
    if (version <= 0)
        return failed(header, version, "PAPI_library_init", explain(version));
    int code = create(&event_set);
    if (code != 0)
        return failed(header, code, "PAPI_create_eventset", explain(code));
    for (uint32_t i = 0; i < header->events; i++) {
        code = add(event_set, header->event[i].name);
        if (code != 0)
            return failed(header, code, header->event[i].name, explain(code));
    }
    code = start(event_set);
    return code == 0 ? 0 : failed(header, code, "PAPI_start", explain(code));
}

int unperturbed_papi_read(struct unperturbed_record *record, uint32_t events)
{
    long long value[UNPERTURBED_EVENTS];
    if (papi_read(event_set, value) != 0)
        return -1;
    for (uint32_t i = 0; i < events; i++)
        record->value[i] = value[i];
    return 0;
}
