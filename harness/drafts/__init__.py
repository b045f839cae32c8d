"""Write specs: of a command, of a folder of source code, and examples to begin with.

::

    metrics        which metrics this host can count of a program as it is
    command        the spec that a command line stands for
    trial          unmeasured runs: duration, output, what the command becomes and calls
    counting       which calls a program really makes
    saving         where the spec of a command is kept, and found again
    stdin          what the program reads, the same in each run
    watching       which program a command becomes, and which it starts
    source_folder  a spec to complete, for a folder of source code
    comparison     the spec that two command lines stand for
    examples       small specs with their programs, each shows one kind of campaign
    wording        YAML text
"""
