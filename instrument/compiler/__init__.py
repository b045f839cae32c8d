"""The compilers of an instrumented build: they put the counters of software metrics into what they compile.

::

    toolchain    writes `cc` and `cxx` for a build          settings    what a wrapper has to know
    wrapper      one compiler command, with counters        cc          the same by hand: `unperturbed cc`
    processes    runs compilers, with little of Python      facts       the compiler's answers about itself
"""
