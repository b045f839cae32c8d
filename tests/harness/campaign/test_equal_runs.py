"""What makes runs of a round alike: the stack's place, and the places where intervals of work end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import unperturbed as up
from tests.harness.phases_campaign import unperturbed
from unperturbed.harness.campaign.run import _padded

_WHERE = """
#include <stdio.h>
int main(void) { int here; printf("%lu\\n", (unsigned long)&here % 4096); return 0; }
"""
_READS = """
#include <stdio.h>
#include <stdlib.h>
static unsigned char text[4096];
int main(void) {
    FILE *file = fopen("/dev/zero", "r");
    unsigned long sum = 0;
    for (int i = 0; i < 2500 && fread(text, 1, sizeof text, file); i++) {
        unsigned char *copy = malloc(64 + i % 64);
        for (int at = 0; at < 4096; at += 1 + i % 3) sum += text[at] + at % (i % 7 + 1);
        copy[0] = (unsigned char)sum;
        free(copy);
    }
    printf("%lu\\n", sum);
    return 0;
}
"""


def test_the_stack_is_at_the_same_place_whatever_a_configuration_is_called(tmp_path: Path) -> None:
    """Without address randomisation, as on a host where nothing else varies it."""
    (tmp_path / "where.c").write_text(_WHERE)
    found = set()
    longer = {"A": "/elsewhere", "C": ""}
    for name, more, variables in (
        ("a", [], {}),
        ("in a longer path", ["w" * 17], longer),
        ("b", ["1", "22"], {"D": ""}),
    ):
        program = tmp_path / name
        subprocess.run(["gcc", "-o", program, tmp_path / "where.c"], check=True)
        environment = {"PATH": os.environ["PATH"], **variables}
        words = [str(program), *more]
        padded = _padded(words, environment, 100)
        for prefix in (["setarch", "-R"], ["valgrind", "-q", "--tool=none"]):
            done = subprocess.run([*prefix, *words], env=padded, capture_output=True, text=True, check=True)
            found.add((prefix[0], done.stdout))
    assert len(found) == 2, found


def test_runs_that_read_have_the_same_intervals_in_all_configurations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting calls loads another library and adds a few instructions; what each interval holds hardly moves."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reads.c").write_text(_READS)
    program = tmp_path / "reads"
    subprocess.run(["gcc", "-O1", "-o", program, tmp_path / "reads.c"], check=True)
    command = ["run", "--runs", "5", "--baseline-runs", "5", "--metrics", "PAPI_TOT_INS,PAPI_L1_DCM,PAPI_BR_MSP"]
    done = unperturbed(tmp_path, *command, "--source", "simulated", "--count", "malloc", "--", str(program))
    assert done.returncode in (0, 4), done.stderr
    campaign = up.load(next((tmp_path / "campaigns").glob("*/")))
    baseline = {run.attributes["block"]: run for run in campaign["baseline"]}
    (name,) = (name for name in campaign if name != "baseline")
    apart = []
    for run in campaign[name]:
        other = baseline[run.attributes["block"]]
        assert run.attributes["environment_pad_bytes"] == other.attributes["environment_pad_bytes"]
        assert abs(len(run) - len(other)) <= 1
        most = min(len(run), len(other)) - 1
        ends, others = (np.cumsum(one["PAPI_TOT_INS"][:most]) for one in (run, other))
        interval = np.median(np.diff(others))
        apart.append(np.abs(ends - others) / interval)
    # Beside much other work, a call may take the tick of an interval's end, which the next call makes up for.
    assert np.median(np.concatenate(apart)) < 0.05
    assert np.mean(np.concatenate(apart)) < 0.1
