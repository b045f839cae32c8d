/* Insertion of counting calls into a Java class file. */
#ifndef UNPERTURBED_CLASS_FILE_H
#define UNPERTURBED_CLASS_FILE_H

#include <stddef.h>
#include <stdint.h>

struct unperturbed_counting {
    const char *owner, *method; /* static method that counts: its class (a/b/C) and name; it takes the address */
    /* Returns the counter of a method's entries; NULL if it is not counted. The name does not end with a zero. */
    uint64_t *(*counter_of)(const char *name, size_t length, void *data);
    void *data;
};

/* Returns the number of counted methods. If there are any, `rewritten` is the new class file, to be freed by the
 * caller. -1: the class file is damaged or of an unknown form, a method is too long, or there is no memory. */
int unperturbed_count_methods(const uint8_t *bytes, size_t length, const struct unperturbed_counting *how,
                              uint8_t **rewritten, size_t *rewritten_length);

#endif
