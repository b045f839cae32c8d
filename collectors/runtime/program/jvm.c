/* Counters for programs on the Java virtual machine: a JVMTI library that the program's own JVM loads.
 *
 * The options (`-agentpath:FILE=OPTIONS`) name what to count, separated by `;`, each as NUMBER:KIND:TARGET with the
 * number of the software metric:
 *
 *   0:event:collections       an event of the virtual machine, which calls a function below; always exact
 *   1:plain:a.b.C.method      entries into methods: classes are rewritten as they are loaded (class_file.c), and
 *   2:exact:a.b.*.m*          count by one addition to a word of this library, or by an atomic one
 *
 * A JVM without options counts nothing. Only what is asked for is switched on: some abilities of a JVM cost time.
 */
#include "../common/unperturbed.h"
#include "class_file.h"

#include <errno.h>
#include <fnmatch.h>
#include <jvmti.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void unperturbed_register(struct unperturbed_table *table) __attribute__((weak, visibility("default")));
int unperturbed_fail(const char *what) __attribute__((weak, visibility("default")));
extern struct unperturbed_header *unperturbed_header __attribute__((weak, visibility("default")));

#define METRICS 256
#define OWNER "java/lang/UnperturbedCounts"
static uint64_t counts[METRICS] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static uint32_t metric[METRICS];
static struct unperturbed_table table = {NULL, counts, metric, 0, 1};

enum event { COLLECTIONS, COMPILATIONS, CLASSES, EVENTS };
static const char *const event_names[EVENTS] = {"collections", "compilations", "classes"};
static uint64_t *event_counter[EVENTS]; /* NULL: not counted */

/* A method whose entries are counted; both names may be globs. */
static struct method {
    char *class, *name;
    int is_exact;
    uint64_t *counter;
} method[METRICS];
static unsigned methods;
static int is_ready; /* whether the class that counts exists */

extern const unsigned char unperturbed_counts_class[]; /* class file of UnperturbedCounts.java, if methods are named */
extern const unsigned unperturbed_counts_class_bytes;

/* Ends the sampling, not the program: the header shows the reason, and the run is refused. */
static void fail(const char *what, int error)
{
    if (!unperturbed_fail || !&unperturbed_header || !unperturbed_header)
        return;
    errno = error;
    unperturbed_fail(what);
    __atomic_store_n(&unperturbed_header->state, STATE_FAILED, __ATOMIC_RELEASE);
}

static void count(enum event event)
{
    if (event_counter[event])
        __atomic_fetch_add(event_counter[event], 1, __ATOMIC_RELAXED);
}

/* The JVM is stopped: this may only count. */
static void JNICALL on_collection(jvmtiEnv *jvm)
{
    (void)jvm;
    count(COLLECTIONS);
}

static void JNICALL on_compilation(jvmtiEnv *jvm, jmethodID which, jint size, const void *code, jint entries,
                                   const jvmtiAddrLocationMap *map, const void *information)
{
    (void)jvm, (void)which, (void)size, (void)code, (void)entries, (void)map, (void)information;
    count(COMPILATIONS);
}

static void JNICALL on_class(jvmtiEnv *jvm, JNIEnv *java, jthread thread, jclass class)
{
    (void)jvm, (void)java, (void)thread, (void)class;
    count(CLASSES);
}

static uint64_t *counter_of(const char *name, size_t length, void *data)
{
    const struct method *wanted = data;
    char own[512];
    if (length >= sizeof own)
        return NULL;
    memcpy(own, name, length);
    own[length] = 0;
    return fnmatch(wanted->name, own, FNM_NOESCAPE) == 0 ? wanted->counter : NULL;
}

/* Writes a class name with dots; returns whether the class has methods that may be counted. What counts, and what that
 * uses, is never counted. */
static int is_named(const char *name, char *dotted, size_t room)
{
    size_t length = strlen(name);
    if (length >= room || strcmp(name, OWNER) == 0 || strcmp(name, "jdk/internal/misc/Unsafe") == 0)
        return 0;
    for (size_t at = 0; at <= length; at++)
        dotted[at] = (char)(name[at] == '/' ? '.' : name[at]);
    for (unsigned index = 0; index < methods; index++)
        if (fnmatch(method[index].class, dotted, FNM_NOESCAPE) == 0)
            return 1;
    return 0;
}

/* A class is about to be defined, or defined again: inserts the counting calls, metric by metric. */
static void JNICALL on_class_file(jvmtiEnv *jvm, JNIEnv *java, jclass redefined, jobject loader, const char *name,
                                  jobject domain, jint length, const unsigned char *bytes, jint *new_length,
                                  unsigned char **new_bytes)
{
    (void)java, (void)redefined, (void)loader, (void)domain;
    char dotted[1024], what[1200];
    if (!is_ready || !name || !is_named(name, dotted, sizeof dotted))
        return;
    uint8_t *made = NULL;
    size_t made_length = (size_t)length;
    for (unsigned index = 0; index < methods; index++) {
        struct unperturbed_counting how = {OWNER, method[index].is_exact ? "exact" : "plain", counter_of,
                                           &method[index]};
        if (fnmatch(method[index].class, dotted, FNM_NOESCAPE) != 0)
            continue;
        uint8_t *next = NULL;
        int counted = unperturbed_count_methods(made ? made : bytes, made_length, &how, &next, &made_length);
        if (counted < 0) {
            snprintf(what, sizeof what, "cannot insert counters into the class %s", dotted);
            fail(what, EINVAL);
        }
        if (counted > 0) {
            free(made);
            made = next;
        }
    }
    unsigned char *given;
    if (made && (*jvm)->Allocate(jvm, (jlong)made_length, &given) == JVMTI_ERROR_NONE) {
        memcpy(given, made, made_length);
        *new_bytes = given;
        *new_length = (jint)made_length;
    }
    free(made);
}

/* The first moment at which a class can be defined. */
static void JNICALL on_start(jvmtiEnv *jvm, JNIEnv *java)
{
    (void)jvm;
    const jbyte *bytes = (const jbyte *)unperturbed_counts_class;
    if ((*java)->DefineClass(java, OWNER, NULL, bytes, (jsize)unperturbed_counts_class_bytes))
        __atomic_store_n(&is_ready, 1, __ATOMIC_RELEASE);
    else
        fail("cannot define the class that counts", ENOTSUP);
}

/* Before `main`: methods of classes that exist already get their counters now. */
static void JNICALL on_ready(jvmtiEnv *jvm, JNIEnv *java, jthread thread)
{
    (void)java, (void)thread;
    jint loaded;
    jclass *class;
    if (!is_ready || (*jvm)->GetLoadedClasses(jvm, &loaded, &class) != JVMTI_ERROR_NONE)
        return;
    for (jint index = 0; index < loaded; index++) {
        char *signature, dotted[1024];
        jboolean can_change = JNI_FALSE;
        if ((*jvm)->GetClassSignature(jvm, class[index], &signature, NULL) != JVMTI_ERROR_NONE)
            continue;
        size_t length = strlen(signature); /* La/b/C; */
        if (signature[0] == 'L') {
            signature[length - 1] = 0;
            if (is_named(signature + 1, dotted, sizeof dotted) &&
                (*jvm)->IsModifiableClass(jvm, class[index], &can_change) == JVMTI_ERROR_NONE && can_change &&
                (*jvm)->RetransformClasses(jvm, 1, &class[index]) != JVMTI_ERROR_NONE)
                fail("cannot insert counters into a class that the JVM has already loaded", ENOTSUP);
        }
        (*jvm)->Deallocate(jvm, (unsigned char *)signature);
    }
    (*jvm)->Deallocate(jvm, (unsigned char *)class);
}

/* Reads one NUMBER:KIND:TARGET; returns whether it is understood. `text` is kept. */
static int read_metric(char *text)
{
    char *kind = strchr(text, ':'), *target = kind ? strchr(kind + 1, ':') : NULL;
    if (!target || table.sites == METRICS)
        return 0;
    *kind++ = 0;
    *target++ = 0;
    uint32_t site = table.sites++;
    metric[site] = (uint32_t)strtoul(text, NULL, 10);
    if (strcmp(kind, "event") == 0) {
        for (int event = 0; event < EVENTS; event++)
            if (strcmp(target, event_names[event]) == 0) {
                event_counter[event] = &counts[site];
                return 1;
            }
        return 0;
    }
    char *dot = strrchr(target, '.');
    if (!dot)
        return 0;
    *dot = 0;
    method[methods++] = (struct method){target, dot + 1, strcmp(kind, "exact") == 0, &counts[site]};
    return 1;
}

static int switch_on(jvmtiEnv *jvm)
{
    jvmtiCapabilities abilities;
    memset(&abilities, 0, sizeof abilities);
    abilities.can_generate_garbage_collection_events = event_counter[COLLECTIONS] != NULL;
    abilities.can_generate_compiled_method_load_events = event_counter[COMPILATIONS] != NULL;
    abilities.can_retransform_classes = methods > 0;
    jvmtiEventCallbacks called;
    memset(&called, 0, sizeof called);
    called.GarbageCollectionStart = on_collection;
    called.CompiledMethodLoad = on_compilation;
    called.ClassPrepare = on_class;
    called.ClassFileLoadHook = on_class_file;
    called.VMStart = on_start;
    called.VMInit = on_ready;
    if ((*jvm)->AddCapabilities(jvm, &abilities) != JVMTI_ERROR_NONE ||
        (*jvm)->SetEventCallbacks(jvm, &called, (jint)sizeof called) != JVMTI_ERROR_NONE)
        return -1;
    static const jvmtiEvent of_event[EVENTS] = {JVMTI_EVENT_GARBAGE_COLLECTION_START, JVMTI_EVENT_COMPILED_METHOD_LOAD,
                                                JVMTI_EVENT_CLASS_PREPARE};
    static const jvmtiEvent of_methods[] = {JVMTI_EVENT_CLASS_FILE_LOAD_HOOK, JVMTI_EVENT_VM_START,
                                            JVMTI_EVENT_VM_INIT};
    jvmtiError error = JVMTI_ERROR_NONE;
    for (int event = 0; event < EVENTS && !error; event++)
        if (event_counter[event])
            error = (*jvm)->SetEventNotificationMode(jvm, JVMTI_ENABLE, of_event[event], NULL);
    for (size_t event = 0; methods && event < sizeof of_methods / sizeof *of_methods && !error; event++)
        error = (*jvm)->SetEventNotificationMode(jvm, JVMTI_ENABLE, of_methods[event], NULL);
    return error ? -1 : 0;
}

__attribute__((visibility("default"))) JNIEXPORT jint JNICALL Agent_OnLoad(JavaVM *java, char *options, void *reserved)
{
    (void)reserved;
    jvmtiEnv *jvm;
    char *kept = options && *options ? strdup(options) : NULL, *rest = NULL; /* the JVM frees its text */
    if (!kept)
        return JNI_OK;
    for (char *text = strtok_r(kept, ";", &rest); text; text = strtok_r(NULL, ";", &rest))
        if (!read_metric(text)) {
            fail("the JVM's library cannot read what to count", EINVAL);
            return JNI_OK;
        }
    if ((*java)->GetEnv(java, (void **)&jvm, JVMTI_VERSION_9) != JNI_OK || switch_on(jvm) != 0) {
        fail("this JVM cannot count what the metrics name", ENOTSUP);
        return JNI_OK;
    }
    if (unperturbed_register)
        unperturbed_register(&table);
    return JNI_OK;
}
