"""Write specs: of a command, of a folder of source code, and examples to begin with.

::

    metrics   what can be counted of a program as it is: hardware metrics, library functions, functions of a script
    command   the specs that a command line stands for, and two that are compared
    trial     unmeasured runs: duration, output, what the command becomes and calls
    saving    where the spec of a command is kept and found again, and what the program reads in each run
    starters  a spec to complete, for a folder of source code; small specs with their programs
    wording   YAML text
"""
