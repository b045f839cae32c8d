/* The six data types of the paper's experiment: includes OPERATIONS_HEADER once for each, with TYPE and NAME(function)
 * defined, and makes a table of its measure functions. A program defines before it what that header is, and the type
 * `measure` of its function NAME(measure). */
#define TYPE short
#define NAME(function) function##_short
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME
#define TYPE int
#define NAME(function) function##_int
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME
#define TYPE long
#define NAME(function) function##_long
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME
#define TYPE float
#define NAME(function) function##_float
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME
#define TYPE double
#define NAME(function) function##_double
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME
#define TYPE long double
#define NAME(function) function##_longdouble
#include OPERATIONS_HEADER
#undef TYPE
#undef NAME

static const struct {
    const char *name;
    measure *measure;
} datatypes[] = {
    {"short", measure_short}, {"int", measure_int},       {"long", measure_long},
    {"float", measure_float}, {"double", measure_double}, {"longdouble", measure_longdouble},
};
