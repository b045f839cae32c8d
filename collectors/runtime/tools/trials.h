/* What the two parts of the program that tries events share. */
#ifndef UNPERTURBED_TRIALS_H
#define UNPERTURBED_TRIALS_H

#define GROUP 16 /* as many events as a record holds */

/* Writes one line of answer; what each field means is in trials.c. */
void answer(const char *what, const char *name, const char *reason, int code, const char *description,
            const char *unit);
/* Keeps the processor busy for as long as the kernel needs to show that a group does not fit. */
void work_a_moment(void);

void try_papi(const char *name);
void fit_papi(char *arguments);
void enumerate_papi(void);

#endif
