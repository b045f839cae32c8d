#include "progress.h"

void progress_advance(Progress *progress, uint32_t work)
{
    progress->pending += work;
    while (progress->pending >= PROGRESS_STEP) {
        progress->pending -= PROGRESS_STEP;
        progress->steps++;
        if (progress->dots)
            fputc('.', progress->dots);
    }
}
