/* Counts a program by perf_event alone, nothing of the project in between: what every sampler is compared with.
 *
 *   reference TYPE:CONFIG[,TYPE:CONFIG...] PROGRAM [ARGUMENT...]
 *
 * Prints each event's count in user space, from the program's exec to its end, one a line; then the time the group was
 * enabled and running.
 */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define EVENTS 16

static int die(const char *what)
{
    perror(what);
    exit(125);
}

static int open_event(uint32_t type, uint64_t config, pid_t pid, int leader)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = type;
    attr.config = config;
    attr.disabled = leader < 0;
    attr.enable_on_exec = leader < 0;
    attr.inherit = 1; /* its threads and children too */
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    int fd = (int)syscall(SYS_perf_event_open, &attr, pid, -1, leader, PERF_FLAG_FD_CLOEXEC);
    return fd < 0 ? die("perf_event_open") : fd;
}

int main(int argc, char **argv)
{
    int gate[2], fd[EVENTS], events = 0, status;
    if (argc < 3 || pipe(gate) != 0)
        return die("reference TYPE:CONFIG,... PROGRAM");
    pid_t child = fork();
    if (child == 0) {
        char go;
        close(gate[1]);
        if (read(gate[0], &go, 1) != 1)
            _exit(125);
        close(gate[0]);
        execv(argv[2], argv + 2);
        _exit(126);
    }
    close(gate[0]);
    for (char *text = strtok(argv[1], ","); text && events < EVENTS; text = strtok(NULL, ","), events++) {
        char *colon = strchr(text, ':');
        if (!colon)
            return die("TYPE:CONFIG");
        fd[events] =
            open_event((uint32_t)strtoul(text, NULL, 0), strtoull(colon + 1, NULL, 0), child, events ? fd[0] : -1);
    }
    if (write(gate[1], "g", 1) != 1 || waitpid(child, &status, 0) != child)
        return die("the program");
    uint64_t reading[3] = {0};
    for (int i = 0; i < events; i++) {
        if (read(fd[i], reading, sizeof reading) != sizeof reading)
            return die("read");
        printf("%llu\n", (unsigned long long)reading[0]);
    }
    printf("%llu\n%llu\n", (unsigned long long)reading[1], (unsigned long long)reading[2]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 124;
}
