"""The doctor: what this host can count and why not, what is noisy, and whether a spec can run here. It changes nothing.

::

    findings        what is said of one subject
    reading         files of /proc and /sys below a root, which may be a recorded tree
    surroundings    virtual machine, container, rights
    counting        PMU, permission, container, what takes counters away
    tools           libpapi (asked in a process of its own: ask_papi), valgrind, setpriv
    frequency       governor, turbo, heat, power supply
    load            other work, swap, CPU quota, stolen time
    settings        SMT, isolation, memory, address layout, clock
    pyperf_advice   what pyperf's own checks say
    examine         all of these
    readiness       everything that a spec needs here; preloading: whether a program takes the sampler
    show            in the terminal, and as JSON
"""

from unperturbed.harness.doctor.examine import Examination, examine
from unperturbed.harness.doctor.findings import Finding, Status
from unperturbed.harness.doctor.readiness import MetricSource, Problem, Readiness, check_spec

__all__ = ["Examination", "Finding", "MetricSource", "Problem", "Readiness", "Status", "check_spec", "examine"]
