/* Threads: a sampler for each, when the run asks for it. pthread_create is passed through otherwise (one call more). */
#define _GNU_SOURCE
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct errand {
    void *(*start)(void *);
    void *argument;
};

static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static void stop_sampler(void *sampler) { unperturbed_sampler_stop(sampler); }

static void *run_sampled(void *given)
{
    struct errand errand = *(struct errand *)given;
    free(given);
    struct unperturbed_sampler *sampler = unperturbed_sampler_start();
    if (!sampler)
        return errand.start(errand.argument);
    void *result;
    pthread_cleanup_push(stop_sampler, sampler); /* also when the thread is cancelled or calls pthread_exit */
    result = errand.start(errand.argument);
    pthread_cleanup_pop(1);
    return result;
}

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument)
{
    if (!next_create)
        *(void **)&next_create = dlsym(RTLD_NEXT, "pthread_create");
    struct unperturbed_header *header = unperturbed_header;
    if (header && header->owner == (uint64_t)getpid() && !(header->options & OPTION_OUTSIDE)) {
        unperturbed_mark(MARK_THREADS);
        struct errand *errand = header->options & OPTION_THREADS && header->state == STATE_ATTACHED ? malloc(sizeof *errand) : NULL;
        if (errand) {
            *errand = (struct errand){start, argument};
            int code = next_create(thread, attributes, run_sampled, errand);
            if (code != 0)
                free(errand);
            return code;
        }
    }
    return next_create(thread, attributes, start, argument);
}
