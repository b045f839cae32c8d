"""`python -m unperturbed.harness.cli`: the same as the command `unperturbed`."""

import sys

from unperturbed.harness.cli.dispatch import main

sys.exit(main())
