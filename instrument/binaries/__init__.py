"""Programs that are not built here: ELF symbols, places for kernel probes, library functions to interpose."""
