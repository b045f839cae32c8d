/* Counters for programs written in Python: objects that count one event each time they are negated. The import hook of
 * `instrument` loads it.
 *
 * One file works with every CPython from 3.9 on, including free-threaded builds: it is compiled without Python's
 * headers and uses only functions of the stable ABI. `-hit` is one bytecode instruction, which directly calls the
 * function below. A call would be more expensive, an event for profilers, and subject to the recursion limit: a program
 * that recurses to the limit would get less deep.
 */
#include "../common/unperturbed.h"

#include <stddef.h>
#include <stdlib.h>

typedef struct object object;
struct method {
    const char *name;
    object *(*call)(object *, object *);
    int flags;
    const char *documentation;
};
enum { METH_VARARGS = 1 };
struct slot {
    int number;
    void *value;
};
enum { MULTIPLE_INTERPRETERS = 3, GLOBAL_LOCK = 4 }; /* of a module */
enum { NEGATIVE = 30 };                              /* of a type */
struct type_spec {
    const char *name;
    int size, item_size;
    unsigned flags;
    struct slot *slots;
};
#define HAVE_VERSION_TAG (1u << 18) /* what every type has */
#define SUPPORTED ((void *)1)       /* Py_MOD_MULTIPLE_INTERPRETERS_SUPPORTED */
#define NOT_USED ((void *)1)        /* Py_MOD_GIL_NOT_USED */

extern object *PyModuleDef_Init(void *definition);
extern object *PyType_FromSpec(struct type_spec *spec);
extern object *PyType_GenericAlloc(object *type, ptrdiff_t items);
extern object *PyObject_GetAttrString(object *of, const char *name);
extern object *PyTuple_New(ptrdiff_t items);
extern int PyTuple_SetItem(object *tuple, ptrdiff_t item, object *value);
extern int PyArg_ParseTuple(object *arguments, const char *format, ...);
extern int PyBytes_AsStringAndSize(object *bytes, char **content, ptrdiff_t *length);
extern object *Py_BuildValue(const char *format, ...);
extern long PyLong_AsLong(object *number);
extern const char *Py_GetVersion(void);
extern void Py_IncRef(object *any);
extern void Py_DecRef(object *any);
extern void PyErr_SetString(object *type, const char *message);
extern object *PyExc_ValueError;
extern char PyBaseObject_Type;

void unperturbed_register(struct unperturbed_table *table) __attribute__((weak, visibility("default")));

#define METRICS 256
static uint64_t counts[METRICS] __attribute__((section("unperturbed_sites"), used, aligned(64)));
static uint32_t metric[METRICS];
static struct unperturbed_table table = {NULL, counts, metric, 0, 1};

static object *none;
static int64_t *references; /* reference count of None; NULL if None is immortal (3.12) */

static inline object *give_none(void)
{
    if (references)
        ++*references;
    return none;
}

static long head; /* size of the object header; after it, the address of the object's counter */
#define COUNTER(hit) (*(uint64_t **)((char *)(hit) + head))

static object *count_plainly(object *hit)
{
#if defined(__x86_64__)
    __asm__ __volatile__("incq %0" : "+m"(*COUNTER(hit)));
#else
    ++*(volatile uint64_t *)COUNTER(hit);
#endif
    return give_none();
}

static object *count_exactly(object *hit)
{
    __atomic_fetch_add(COUNTER(hit), 1, __ATOMIC_RELAXED);
    return give_none();
}

static object *make_type(object *(*negative)(object *))
{
    struct slot slots[] = {{NEGATIVE, (void *)negative}, {0, NULL}};
    struct type_spec spec = {"unperturbed_python.hit", (int)(head + (long)sizeof(uint64_t *)), 0, HAVE_VERSION_TAG,
                             slots};
    return PyType_FromSpec(&spec);
}

/* start(numbers, exact): creates counters for the metrics (uint32 each); returns for each an object that counts one
 * event when it is negated. */
static object *start(object *self, object *arguments)
{
    (void)self;
    object *bytes;
    char *numbers;
    ptrdiff_t length;
    int exact;
    if (!PyArg_ParseTuple(arguments, "Sp", &bytes, &exact) || PyBytes_AsStringAndSize(bytes, &numbers, &length) != 0)
        return NULL;
    uint32_t sites = (uint32_t)((size_t)length / sizeof *metric);
    if (table.sites || !sites || sites > METRICS) {
        PyErr_SetString(PyExc_ValueError, "the counters are already in use, or too few");
        return NULL;
    }
    object *type = make_type(exact ? count_exactly : count_plainly), *hits = PyTuple_New(sites);
    for (uint32_t site = 0; site < sites; site++) {
        metric[site] = ((uint32_t *)numbers)[site];
        object *hit = type && hits ? PyType_GenericAlloc(type, 0) : NULL;
        if (!hit)
            return NULL;
        Py_IncRef(hit); /* never freed: it may be used until the program ends */
        COUNTER(hit) = &counts[site];
        PyTuple_SetItem(hits, site, hit);
    }
    table.sites = sites;
    if (unperturbed_register)
        unperturbed_register(&table);
    return hits;
}

/* put(tuple, offset, value): replaces a constant of a code object that is about to run. Nothing else refers to the
 * tuple. CPython compiles the main program where no hook can intervene; its functions' code is replaced before they
 * exist. */
static object *put(object *self, object *arguments)
{
    (void)self;
    object *tuple, *value;
    ptrdiff_t offset;
    if (!PyArg_ParseTuple(arguments, "OnO", &tuple, &offset, &value))
        return NULL;
    object **place = (object **)((char *)tuple + offset), *before = *place;
    Py_IncRef(value);
    *place = value;
    Py_DecRef(before);
    return give_none();
}

static struct method methods[] = {{"start", start, METH_VARARGS, NULL},
                                  {"put", put, METH_VARARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

/* A PyModuleDef: the object header, whose size depends on the build; three words that CPython uses; then these
 * fields. */
struct definition {
    const char *name;
    const char *documentation;
    ptrdiff_t size;
    struct method *methods;
    struct slot *slots;
    void *traverse, *clear, *release;
};
#define LARGEST_HEAD 64
static union {
    char bytes[LARGEST_HEAD + 3 * sizeof(void *) + sizeof(struct definition)];
    void *alignment;
} room;

__attribute__((visibility("default"))) object *PyInit_unperturbed_python(void)
{
    static struct slot slots[3]; /* empty slots end the list: older versions support none */
    object *size = PyObject_GetAttrString((object *)&PyBaseObject_Type, "__basicsize__");
    head = size ? PyLong_AsLong(size) : 0;
    if (head <= 0 || head > LARGEST_HEAD)
        return NULL;
    Py_DecRef(size);
    const char *version = Py_GetVersion(); /* 3.12.1 (main, …) */
    long minor = strtol(version + 2, NULL, 10);
    if (minor >= 12)
        slots[0] = (struct slot){MULTIPLE_INTERPRETERS, SUPPORTED};
    if (minor >= 13)
        slots[1] = (struct slot){GLOBAL_LOCK, NOT_USED};
    none = Py_BuildValue("");
    if (!none)
        return NULL;
    if (minor < 12)
        references = (int64_t *)((char *)none + head - 2 * sizeof(void *)); /* then the type ends the head */
    *(struct definition *)(room.bytes + head + 3 * sizeof(void *)) =
        (struct definition){.name = "unperturbed_python", .methods = methods, .slots = slots};
    return PyModuleDef_Init(room.bytes);
}
