"""Binaries: ELF symbols, sites of kernel probes, library functions to interpose, places that a build can patch."""
