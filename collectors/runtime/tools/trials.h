/* Declarations shared by the two parts of the program that tries events. */
#ifndef UNPERTURBED_TRIALS_H
#define UNPERTURBED_TRIALS_H

#define GROUP 16 /* the maximum number of events in a record */

/* Writes one answer line; trials.c describes the fields. */
void answer(const char *what, const char *name, const char *reason, int code, const char *description,
            const char *unit);
/* Keeps the processor busy for as long as the kernel needs to show that a group does not fit. */
void work_a_moment(void);

void try_papi(const char *name);
void fit_papi(char *arguments);
void enumerate_papi(void);

#endif
