"""What is kept of the host: all that pyperf would record of it, once or with every run, and what pyperf's checks
say."""

from __future__ import annotations

import json

import pytest
from pyperf._collect_metadata import collect_metadata

from unperturbed.harness.host import state as host
from unperturbed.harness.host.doctor import PyperfAnswer, ask_pyperf


@pytest.fixture(scope="module")
def description() -> dict[str, dict[str, str]]:
    return host.describe(("cc",))


def test_pyperf_s_metadata_is_complete_between_the_campaign_and_its_runs(
    description: dict[str, dict[str, str]],
) -> None:
    seen = collect_metadata(process=False)
    once = description["pyperf's metadata"]
    each = {name.removeprefix("pyperf_") for name in host.state() if name.startswith("pyperf_")}
    assert once.keys() | each == seen.keys()
    assert once["hostname"] == seen["hostname"]
    assert once["cpu_count"] == str(seen["cpu_count"])
    assert {"aslr", "cpu_freq"} & seen.keys() <= once.keys() & each
    assert {"date", "uptime", "load_avg_1min"} & once.keys() == set()
    assert {"hostname", "boot_time"} & each == set()


def test_a_description_is_text_and_tells_hosts_apart(description: dict[str, dict[str, str]]) -> None:
    assert all(isinstance(value, str) and value for group in ("host", "tools") for value in description[group].values())
    assert json.loads(json.dumps(description)) == description
    assert description["host"]["name"] in host.fingerprint(description)
    assert description["tools"]["cc"] != "not installed"


def test_pyperf_s_checks_are_kept_word_for_word(description: dict[str, dict[str, str]]) -> None:
    checks = description["pyperf's system checks"]
    answer = ask_pyperf()
    assert answer.problem == ""
    for line in answer.advice:
        subject, advice = line.split(": ", 1)
        assert advice in checks[subject]
    assert checks
    assert host._checks(PyperfAnswer()) == {"advice": "none"}
    assert host._checks(PyperfAnswer(problem="no answer within 20 s")) == {"not made": "no answer within 20 s"}
    assert host._checks(
        PyperfAnswer(("Linux scheduler: one", "Linux scheduler: two: three"), ("IRQ affinity: four",))
    ) == {
        "Linux scheduler": "one; two: three",
        "failed": "IRQ affinity: four",
    }


def test_two_states_say_what_happened_between_them() -> None:
    before = host.state()
    after = host.state()
    assert json.loads(json.dumps(after)) == after
    assert after["pyperf_uptime"] > before["pyperf_uptime"]  # type: ignore[operator]
    assert "context switches" in host.difference(before, after)
    assert host.difference({}, after) == ""
