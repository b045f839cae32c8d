"""Command line: one class per command, and the single place that turns errors into exit codes."""

import resource
import sys

if resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY:
    # At a file-size limit, Python keeps a truncated file of a compiled module, and cannot load it the next time.
    sys.dont_write_bytecode = True

from unperturbed.harness.cli.dispatch import main as main
