/* Threads: a sampler for each, if the run requests it. Otherwise pthread_create and C11's thrd_create are passed
 * through (one additional call). Weak symbols: a program with functions of these names keeps its own.
 */
#define _GNU_SOURCE
#include "../common/runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

/* A static program has no next function; the library's internal names of the same functions are used if they always
 * exist. */
#if !defined(UNPERTURBED_STATIC)
#define NEXT(name) dlsym(RTLD_NEXT, #name)
#elif defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
extern int __pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern int __thrd_create(pthread_t *, int (*)(void *), void *);
#define NEXT(name) (void *)__##name
#endif

#ifdef NEXT
struct errand {
    void *(*posix)(void *);
    int (*c11)(void *);
    void *argument;
    struct unperturbed_birth birth;
};

static void stop_sampler(void *sampler) { unperturbed_sampler_stop(sampler); }

static void *call(const struct errand *errand)
{
    return errand->posix ? errand->posix(errand->argument) : (void *)(intptr_t)errand->c11(errand->argument);
}

static void *run_sampled(void *given)
{
    struct errand errand = *(struct errand *)given;
    unperturbed_pause();
    unperturbed_apart++;
    free(given);
    unperturbed_apart--;
    struct unperturbed_sampler *sampler = unperturbed_sampler_start(&errand.birth);
    unperturbed_resume();
    if (!sampler)
        return call(&errand);
    void *result;
    pthread_cleanup_push(stop_sampler, sampler); /* also if the thread is cancelled or calls pthread_exit */
    result = call(&errand);
    pthread_cleanup_pop(1);
    return result;
}

static int run_sampled_c11(void *given) { return (int)(intptr_t)run_sampled(given); }

static struct errand *errand_for(void *(*posix)(void *), int (*c11)(void *), void *argument)
{
    unperturbed_apart++;
    int samples = unperturbed_samples_threads();
    if (samples)
        unperturbed_pause();
    struct errand *errand = samples ? malloc(sizeof *errand) : NULL;
    if (errand) {
        *errand = (struct errand){.posix = posix, .c11 = c11, .argument = argument};
        if (unperturbed_counts_each())
            unperturbed_conceive(&errand->birth, posix ? (const void *)posix : (const void *)c11, argument);
    }
    if (samples)
        unperturbed_resume();
    unperturbed_apart--;
    return errand;
}

/* A thread that could not be created runs no errand. */
static int forget(struct errand *errand, int code)
{
    if (code == 0 || !errand)
        return code;
    unperturbed_apart++;
    free(errand);
    unperturbed_apart--;
    return code;
}

__attribute__((weak, visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                                                                void *(*start)(void *), void *argument)
{
    static int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!next)
        *(void **)&next = NEXT(pthread_create);
    struct errand *errand = errand_for(start, NULL, argument);
    int code = errand ? next(thread, attributes, run_sampled, errand) : next(thread, attributes, start, argument);
    return forget(errand, code);
}

__attribute__((weak, visibility("default"))) int thrd_create(pthread_t *thread, int (*start)(void *), void *argument)
{
    static int (*next)(pthread_t *, int (*)(void *), void *);
    if (!next)
        *(void **)&next = NEXT(thrd_create);
    struct errand *errand = errand_for(NULL, start, argument);
    int code = errand ? next(thread, run_sampled_c11, errand) : next(thread, start, argument);
    return forget(errand, code);
}
#endif
