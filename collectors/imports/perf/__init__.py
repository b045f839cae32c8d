"""What perf writes: counts and metrics of `perf stat -I`, and samples of `perf script`."""
