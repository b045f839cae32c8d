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

from __future__ import annotations

from typing import TYPE_CHECKING

from unperturbed.common.faces import lazy_names

if TYPE_CHECKING:
    from unperturbed.harness.drafts.command import Choices, CommandSpec, describe_command
    from unperturbed.harness.drafts.comparison import Comparison, describe_comparison
    from unperturbed.harness.drafts.examples import EXAMPLES, write_example
    from unperturbed.harness.drafts.saving import Saved, find_place, head_of, save, set_runs
    from unperturbed.harness.drafts.source_folder import describe_source
    from unperturbed.harness.drafts.stdin import spool_stdin
    from unperturbed.harness.drafts.trial import try_command

__all__ = [
    "EXAMPLES",
    "Choices",
    "CommandSpec",
    "Comparison",
    "Saved",
    "describe_command",
    "describe_comparison",
    "describe_source",
    "find_place",
    "head_of",
    "save",
    "set_runs",
    "spool_stdin",
    "try_command",
    "write_example",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "command": ("Choices", "CommandSpec", "describe_command"),
        "comparison": ("Comparison", "describe_comparison"),
        "examples": ("EXAMPLES", "write_example"),
        "saving": ("Saved", "find_place", "head_of", "save", "set_runs"),
        "source_folder": ("describe_source",),
        "stdin": ("spool_stdin",),
        "trial": ("try_command",),
    },
)
