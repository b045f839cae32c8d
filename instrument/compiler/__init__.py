"""The compilers of an instrumented build: they put the counters of software metrics into what they compile.

::

    toolchain    writes `cc` and `cxx` for a build          launchers   the executables behind them
    wrapper      one compiler command, with counters        cc          the same by hand: `unperturbed cc`
    settings     what a wrapper has to know                 facts       what the compiler itself answers
    processes    runs compilers, with little of Python      include_dirs   where the compiler searches headers
"""
