"""Programs that are not built here: ELF symbols, places for kernel probes, library functions to interpose."""

from unperturbed.instrument.binaries.elf import is_static, read_binary
from unperturbed.instrument.binaries.interposition import Interposed, find_function, find_functions, interposer_source
from unperturbed.instrument.binaries.libraries import needed_libraries
from unperturbed.instrument.binaries.probes import HIT_COSTS, HIT_NS, Hit, ProbeSite, find_probes

__all__ = [
    "HIT_COSTS",
    "HIT_NS",
    "Hit",
    "Interposed",
    "ProbeSite",
    "find_function",
    "find_functions",
    "find_probes",
    "interposer_source",
    "is_static",
    "needed_libraries",
    "read_binary",
]
