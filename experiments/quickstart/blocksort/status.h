/* What a stage can answer. Only main.c turns an answer into a message and an exit code. */
#ifndef STATUS_H
#define STATUS_H

typedef enum {
    STATUS_OK,
    STATUS_READ,    /* the input cannot be read */
    STATUS_WRITE,   /* the output cannot be written */
    STATUS_MEMORY,  /* no memory left */
    STATUS_FORMAT,  /* the input is not a file of this program */
    STATUS_CORRUPT, /* the input is a file of this program, but damaged */
} Status;

#endif
