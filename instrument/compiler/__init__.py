"""The compilers of an instrumented build: they put the counters of software metrics into what they compile."""
