"""`--jobs`: verdicts and reports by several processes are those of one."""

import json

import pytest

from tests.benchmarks.large_campaign import make
from unperturbed.harness.cli import main


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    folder = tmp_path_factory.mktemp("campaigns") / "mine"
    make(folder, 120, 4, 3, intervals=80)  # 40 runs a configuration: enough to be worth a second process
    return folder


def test_two_processes_judge_as_one_does(campaign, capsys):
    printed = []
    for words in (["--json"], ["--json", "--jobs", "2"]):
        main(["check", str(campaign), *words])
        printed.append((json.loads(capsys.readouterr().out), (campaign / "report.html").read_bytes()))
    assert printed[0] == printed[1]
    assert main(["report", str(campaign), "--jobs", "2"]) == 0
    assert (campaign / "report.html").read_bytes() == printed[0][1]


def test_a_number_that_is_not_positive_is_refused(campaign, capsys):
    assert main(["report", str(campaign), "--jobs", "0"]) == 2
    assert "--jobs 0: give the number of processes, 1 or more" in capsys.readouterr().err
