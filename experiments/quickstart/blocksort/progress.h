/* Progress: every stage reports the work that it has done, and a step is counted each time that a fixed amount is full.
 *
 * The steps depend on the input alone, so they are milestones: the k-th step is the same point of the same work in
 * every run.
 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <stdint.h>
#include <stdio.h>

/* Units of work are what a stage handles: bytes, suffixes or symbols. Stages that handle them singly report whole
 * batches. */
enum { PROGRESS_BATCH = 1024, PROGRESS_STEP = 32768 };

typedef struct {
    uint32_t pending; /* work since the last step */
    uint32_t steps;
    FILE *dots; /* where a dot is shown for each step, or NULL */
} Progress;

void progress_advance(Progress *progress, uint32_t work);

#endif
