/* What the two parts of the listing program share. */
#ifndef UNPERTURBED_LIST_H
#define UNPERTURBED_LIST_H

#define GROUP 16 /* as many events as a record holds */

/* Writes one line of answer; what each field means is in list.c. */
void list_answer(const char *what, const char *name, const char *reason, int code, const char *description, const char *unit);
/* Keeps the processor busy for as long as the kernel needs to show that a group does not fit. */
void list_work(void);

void list_try_papi(const char *name);
void list_fit_papi(char *arguments);
void list_enumerate_papi(void);

#endif
