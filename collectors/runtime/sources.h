/* The hardware counters that the runtime reads itself, each source behind the same two functions. */
#ifndef UNPERTURBED_SOURCES_H
#define UNPERTURBED_SOURCES_H

#include "unperturbed.h"

/* Opens and starts the events of the header. Returns 0, or fills header->error and header->message and returns -1. */
int unperturbed_perf_open(struct unperturbed_header *header);
int unperturbed_papi_open(struct unperturbed_header *header);

/* Reads all events into record->value; returns -1 when they could not be read. perf: one read(2), about 1 us. PAPI: one PAPI_read, 144 cycles (rdpmc) to 2,500. */
int unperturbed_perf_read(struct unperturbed_record *record, uint32_t events);
int unperturbed_papi_read(struct unperturbed_record *record, uint32_t events);

#endif
