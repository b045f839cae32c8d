/* Asks a wrapper's server to run one command of a compiler with our folder, environment and streams.
 *
 *     wrapper_client SOCKET ARGUMENTS...
 *
 * What is sent: the length; then the folder, the number of arguments, each argument and each variable, all ended by a
 * zero. What is answered: the exit code. Nothing comes when the process that ran the command was killed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

extern char **environ;

enum { FAILED = 70 };

static char *end;

static void add(const char *text) { end = stpcpy(end, text) + 1; }

static size_t length_of(char **texts)
{
    size_t length = 0;
    for (; *texts; texts++)
        length += strlen(*texts) + 1;
    return length;
}

int main(int argc, char **argv)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char *folder = getcwd(NULL, 0);
    if (argc < 2 || !folder || strlen(argv[1]) >= sizeof address.sun_path)
        return FAILED;
    strcpy(address.sun_path, argv[1]);
    char count[16];
    snprintf(count, sizeof count, "%d", argc - 2);
    uint32_t length = (uint32_t)(strlen(folder) + strlen(count) + 2 + length_of(argv + 2) + length_of(environ));
    char *message = end = malloc(length);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (!message || server < 0 || connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("wrapper_client");
        return FAILED;
    }
    add(folder);
    add(count);
    for (char **word = argv + 2; *word; word++)
        add(*word);
    for (char **variable = environ; *variable; variable++)
        add(*variable);

    union {
        char bytes[CMSG_SPACE(3 * sizeof(int))];
        struct cmsghdr aligned;
    } control = {{0}};
    struct iovec begin = {&length, sizeof length};
    struct msghdr header = {.msg_iov = &begin,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof control};
    struct cmsghdr *streams = CMSG_FIRSTHDR(&header);
    streams->cmsg_level = SOL_SOCKET;
    streams->cmsg_type = SCM_RIGHTS;
    streams->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(streams), (int[]){0, 1, 2}, 3 * sizeof(int));
    if (sendmsg(server, &header, 0) != sizeof length)
        return FAILED;
    for (const char *at = message; at < end;) {
        ssize_t sent = write(server, at, (size_t)(end - at));
        if (sent <= 0)
            return FAILED;
        at += sent;
    }
    unsigned char code;
    return read(server, &code, 1) == 1 ? code : FAILED;
}
