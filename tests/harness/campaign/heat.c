#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double *now, *next;

static void exchange(int rank, int ranks, long own)
{
    int left = rank ? rank - 1 : MPI_PROC_NULL, right = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(now + 1, 1, MPI_DOUBLE, left, 0, now + own + 1, 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Sendrecv(now + own, 1, MPI_DOUBLE, right, 1, now, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static void relax(long own)
{
    for (long i = 1; i <= own; i++)
        next[i] = now[i] + 0.25 * (now[i - 1] - 2 * now[i] + now[i + 1]);
    double *other = now;
    now = next;
    next = other;
}

static double total(long own)
{
    double sum = 0, all = 0;
    for (long i = 1; i <= own; i++)
        sum += now[i];
    MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int count, char **word)
{
    int rank, ranks;
    MPI_Init(&count, &word);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long cells = atol(word[1]), steps = atol(word[2]), first = (long)(cells * atof(word[3]));
    long own = ranks == 1 ? cells : rank == 0 ? first : (cells - first) / (ranks - 1);
    double heat = 0;
    now = calloc((size_t)own + 2, sizeof *now);
    next = calloc((size_t)own + 2, sizeof *next);
    if (rank == 0)
        now[1] = 100;
    for (long step = 0; step < steps; step++) {
        exchange(rank, ranks, own);
        for (long sweep = 0; sweep <= step / 40 % 3; sweep++) /* in turns one, two or three for each exchange */
            relax(own);
        if (step % 5 == 4)
            heat = total(own);
    }
    if (rank == 0)
        printf("%.3f\n", heat);
    MPI_Finalize();
    return 0;
}
