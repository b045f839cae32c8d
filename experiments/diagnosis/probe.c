/* Writes what the sinks show to the file that SHOWN_FILE names: preloaded into gst-launch-1.0.
 *
 * fakesink (silent=false) puts each buffer and each event into its property last-message, and tells GObject so, in the
 * thread that shows it. This library stands in GObject's place: a line is the time (CLOCK_MONOTONIC, ns) and the
 * message. The notice goes no further, so nothing of it is in the log; `gst-launch-1.0 -v` would tell it too, but loses
 * some when two sinks show at the same moment (deep-notify is G_SIGNAL_NO_RECURSE), and tells it when its main thread
 * has time.
 *
 * Costs the showing thread one string copy and one write(2) a buffer. Built without GLib's headers: the three
 * declarations below are its ABI.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct param_spec { /* GParamSpec, as far as it is needed */
    void *class;
    const char *name;
};
extern void g_object_get(void *object, const char *first, ...);
extern void g_free(void *memory);

static int shown = -1;
static void (*notify)(void *, struct param_spec *);

__attribute__((constructor)) static void start(void)
{
    const char *file = getenv("SHOWN_FILE");
    notify = (void (*)(void *, struct param_spec *))dlsym(RTLD_NEXT, "g_object_notify_by_pspec");
    if (file != NULL && notify != NULL)
        shown = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (shown < 0) {
        fputs("SHOWN_FILE cannot be written, or this is not a program of GObject's\n", stderr);
        _exit(3);
    }
}

void g_object_notify_by_pspec(void *object, struct param_spec *property)
{
    struct timespec now;
    char *message = NULL, line[600];
    int length;

    if (strcmp(property->name, "last-message") != 0) {
        notify(object, property);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    g_object_get(object, "last-message", &message, NULL);
    length = snprintf(line, sizeof line, "%lld %s", now.tv_sec * 1000000000LL + now.tv_nsec, message ? message : "");
    g_free(message);
    if (length >= (int)sizeof line)
        length = sizeof line - 1; /* only events of caps and tags are longer */
    line[length] = '\n';
    if (write(shown, line, length + 1) < 0) /* one write a line: appending is atomic */
        _exit(3);
}
