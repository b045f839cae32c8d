/* A program with the runtime that only works for a moment: this host can count whatever this program can count. */
int main(void)
{
    volatile unsigned long work = 0;
    for (unsigned long i = 0; i < 3000000; i++)
        work = work + i;
    return 0;
}
