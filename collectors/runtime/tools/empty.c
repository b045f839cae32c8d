/* A program that does nothing but work for a moment with the runtime inside: what it can count, this host can count. */
int main(void)
{
    volatile unsigned long work = 0;
    for (unsigned long i = 0; i < 3000000; i++)
        work = work + i;
    return 0;
}
