"""The command line: one class a command, and the one place that turns errors into exit codes."""

import resource
import sys

if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
    # Python keeps what it could write of a compiled module as if it were whole, and cannot load it the next time.
    sys.dont_write_bytecode = True

from unperturbed.harness.cli.dispatch import main as main
