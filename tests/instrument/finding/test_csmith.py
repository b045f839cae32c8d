"""Programs of csmith's, random and free of undefined behaviour.

The same checksum, and entries and exits as gcc itself counts them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SEEDS = range(1, 1 + max(4, int(os.environ.get("UNPERTURBED_EXAMPLES", "0"))))
LEVELS = ("-O2", "-O0", "-O3")
SECONDS = 1
"""Some of the programs loop for ever."""

SOFTWARE = {
    "enters": {"enter": "*"},
    "returns": {"return": "*"},
    "loops": {"loop": "*"},
    "exact loops": {"loop": "*", "threads": "exact"},
    "calls": {"call": "func_*"},
    "functions": {"enter": "func_*"},
}

HOOKS = """\
#include <stdio.h>
static long entered, left;
#define UNSEEN __attribute__((no_instrument_function))
UNSEEN void __cyg_profile_func_enter(void *function, void *site) { (void)function; (void)site; entered++; }
UNSEEN void __cyg_profile_func_exit(void *function, void *site) { (void)function; (void)site; left++; }
UNSEEN static __attribute__((destructor)) void tell(void) { fprintf(stderr, "%ld %ld\\n", entered, left); }
"""


@pytest.mark.skipif(not shutil.which("csmith"), reason="csmith is not installed")
def test_checksums_and_counts(workshop):
    shop = workshop(SOFTWARE)
    sham = workshop(SOFTWARE, name="sham", form="sham")
    shop.write("hooks.c", HOOKS)
    flags = ("-w", f"-I{HERE}")
    checked = entered_in_all = 0
    for seed in SEEDS:
        text = subprocess.run(
            ["csmith", "--no-packed-struct", "--seed", str(seed)],
            cwd=shop.folder,  # it writes a file there, platform.info
            capture_output=True,
            text=True,
            check=True,
        )
        shop.write("prog.c", text.stdout)
        sham.write("prog.c", text.stdout)
        hooked = ["gcc", *flags, "-O1", "-finstrument-functions", "prog.c", "hooks.c", "-o", "hooked"]
        subprocess.run(hooked, cwd=shop.folder, check=True)
        try:
            expected = subprocess.run(
                ["./hooked"], cwd=shop.folder, capture_output=True, text=True, timeout=SECONDS, check=True
            )
        except subprocess.TimeoutExpired:
            continue
        entered, left = map(int, expected.stderr.split())
        level = LEVELS[seed % len(LEVELS)]
        shop.call(*flags, level, "prog.c", "-o", "prog")
        sham.call(*flags, level, "prog.c", "-o", "prog")
        output, counts = shop.run()
        assert shop.report.skipped == sham.report.skipped == {}, seed
        assert output == expected.stdout, seed
        assert [counts["enters"], counts["returns"]] == [entered, left], seed
        assert counts["loops"] == counts["exact loops"] > 0, seed
        assert counts["calls"] == counts["functions"] > 0, seed
        assert sham.run() == (output, dict.fromkeys(SOFTWARE, 0)), seed
        checked += 1
        entered_in_all += entered
    assert checked >= len(SEEDS) / 2
    assert entered_in_all > 1000
