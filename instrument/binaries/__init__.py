"""Programs that are not built here: ELF symbols, sites of kernel probes, library functions to interpose."""
