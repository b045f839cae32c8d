"""Compilers of an instrumented build, which insert the counters of software metrics into the code."""
