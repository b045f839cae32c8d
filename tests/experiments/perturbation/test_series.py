"""The evaluation of the perturbation experiment finds in a campaign what was planted there, and says it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.perturbation import evaluate, figures, findings, series
from unperturbed.collectors import Metric, Trace
from unperturbed.collectors.data import Kind
from unperturbed.harness.spec.load import load_spec

FOLDER = Path(__file__).parents[3] / "experiments" / "perturbation"
INTERVALS, INSTRUCTIONS, EVENTS = 400, 200_000, 50
PERTURBED, PAIR = "runs", ("PAPI_L1_DCM", "PAPI_L2_TCM")


def write_run(
    folder: Path,
    number: int,
    configuration: str,
    software: list[str],
    *,
    run: str = "",
    sham_of: str = "",
    path: Path = FOLDER / "bzip2.yaml",
) -> None:
    """Write the trace of a run, in which the pair's correlation is lost when the planted metric came in last."""
    spec = load_spec(path)
    kind: Kind = "simulated" if spec.measure.source == "simulated" else "hardware"
    chance = np.random.default_rng(number)
    work = np.cumsum(np.random.default_rng(0).normal(size=INTERVALS))  # the same in every run
    noise = {name: chance.normal(scale=0.4, size=INTERVALS) for name in spec.measure.hardware}
    columns = {name: np.round(10_000 + 500 * (work + noise[name])) for name in spec.measure.hardware}
    columns["PAPI_TOT_INS"] = np.full(INTERVALS, INSTRUCTIONS) + np.round(100 * noise["PAPI_TOT_INS"])
    if configuration == f"with-{PERTURBED}":
        columns[PAIR[0]] = np.round(10_000 + 500 * chance.normal(size=INTERVALS))
    columns |= {name: np.full(INTERVALS, EVENTS) for name in software}
    columns = {name: values.astype(np.int64) for name, values in columns.items()}
    metrics = [Metric(name, kind, components=(name,)) for name in spec.measure.hardware]
    metrics += [Metric(name, "software") for name in software]
    metrics.append(Metric("IPC", "derived", components=("PAPI_TOT_INS", "PAPI_TOT_CYC")))
    columns["IPC"] = columns["PAPI_TOT_INS"] / columns["PAPI_TOT_CYC"]
    begin = np.arange(INTERVALS) * 1000
    name = run or f"{number:04d}"
    attributes = {"run": name, "configuration": configuration, "host": "h", "interval_ns": 1, "order": number}
    if sham_of:
        attributes["sham_of"] = sham_of
    target = folder / "runs" / f"{number:04d}"
    target.mkdir(parents=True)
    trace = Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=begin + 1000, attributes=attributes)
    trace.write(target / "trace.parquet")


def write_runs(folder: Path, path: Path = FOLDER / "bzip2.yaml") -> None:
    """Write the runs of a spec's campaign, and of a sham."""
    runs: list[tuple[str, list[str], str]] = [("baseline", [], "")] * 10
    for name, metrics in load_spec(path).campaign.subsets.items():
        runs += [(name, list(metrics), "")] * 3
    runs += [("with-rows-sham", [], "with-rows")] * 3
    for number, (configuration, software, sham_of) in enumerate(runs, start=1):
        write_run(folder, number, configuration, software, sham_of=sham_of, path=path)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> series.Series:
    """What is found in a campaign of bzip2's spec, with runs of a sham besides."""
    campaign = tmp_path_factory.mktemp("campaign")
    write_run(campaign, 0, "baseline", [], run="pilot")
    write_runs(campaign)
    return series.judge(series.PROGRAMS[0], campaign)


def test_planted_step_is_perturbed_by_both_rules_and_its_pair_is_named(found: series.Series) -> None:
    assert len(found.baseline.traces) == 10  # without the pilot
    planted = next(step for step in found.steps if step.metric == PERTURBED)
    assert planted.verdict.verdict == "perturbed"
    assert planted.inner_as_paper.verdict == "perturbed"
    assert PAIR[0] in planted.largest_inner[0]
    assert planted.largest_outer[0] == PAIR[0]
    assert planted.outer_rho(PAIR[0])[0] < 0.5 < min(found.outer_reference(PAIR[0]))
    assert all(step.verdict.verdict != "perturbed" for step in found.steps if step is not planted)
    pair, at, by = found.sharpest()
    assert PAIR[0] in pair
    assert found.steps[at].metric in (PERTURBED, "simple")  # it falls with the one and comes back with the next
    assert abs(by) > 0.5
    assert set(figures.paired(found.pairs, *PAIR)) == set(PAIR)


def test_increments_are_counted_and_held_against_the_baselines_instructions(found: series.Series) -> None:
    assert [step.events for step in found.steps] == [INTERVALS * EVENTS * (at + 1) for at in range(9)]
    assert found.steps[3].increment_ratio == pytest.approx(4 * EVENTS / INSTRUCTIONS, rel=1e-3)
    assert [step.metric for step in found.steps] == list(load_spec(FOLDER / "bzip2.yaml").measure.software)


def test_sham_runs_are_judged_apart(found: series.Series) -> None:
    shams = {step.metric: step.sham for step in found.steps}
    assert [metric for metric, sham in shams.items() if sham is not None] == ["rows"]
    assert shams["rows"].verdict != "perturbed"
    assert {change.check for change in shams["rows"].changes} == {"inner", "outer"}
    table = "\n".join(evaluate.step_tables([found]))
    assert " its sham |" in table
    rows = next(step for step in found.steps if step.metric == "rows")
    assert f"{rows.of_sham('outer', rows.largest_outer[0]):+.3f}" in table
    assert "Of 1 step with a sham, 0 are perturbed" in "\n".join(findings.findings([found]))


def test_false_alarms_of_both_rules_are_counted_on_each_baseline_run(found: series.Series) -> None:
    assert len(found.left_out) == len(found.left_out_verdicts) == 10
    # Of ten runs, for each pair, one lies farthest out, whatever the pair.
    assert sum(found.left_out) >= len(found.pairs) / 2
    assert found.left_out_verdicts.count("perturbed") <= 1


def test_page_says_what_was_found_and_figures_are_drawn(found: series.Series, tmp_path: Path) -> None:
    page = evaluate.page([found], "Made.")
    assert f"when {PERTURBED} comes in" in page
    assert f"from its baseline when {PERTURBED} comes in (perturbed)" in page
    assert "was seen in bzip2" in page
    assert "Not recorded yet: chess, network, redcode." in page
    assert "{" not in page
    (tmp_path / "figures").mkdir()
    figures.draw_all(tmp_path / "figures", [found])
    drawn = {path.name: path.read_text() for path in (tmp_path / "figures").iterdir()}
    assert set(drawn) == {"figure3.svg", "figures4-6.svg", "figure5.svg", "figures7-8.svg"}
    assert "L1_DCM" in drawn["figure5.svg"]


def test_a_processors_runs_get_a_page_of_their_own_beside_the_simulators(
    found: series.Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluate, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(findings, "TABLES", tmp_path)
    monkeypatch.setattr(findings, "SIMULATED", tmp_path / "simulated.parquet")
    monkeypatch.setattr(findings, "PROCESSOR", tmp_path / "processor.parquet")
    monkeypatch.setattr(evaluate, "PROGRAMS", series.PROGRAMS[:1])
    monkeypatch.setattr(evaluate, "run_campaign", lambda spec, folder: write_runs(folder, spec))
    findings.write_changes([found], processor=False)
    (tmp_path / "evidence").mkdir()
    evaluate.main(["--processor", "--campaigns", str(tmp_path / "campaigns")])
    page = (tmp_path / "evidence" / "perturbation_processor.md").read_text()
    assert f"when {PERTURBED} comes in" in page
    assert "30 MB" in page
    assert "| bzip2 | inner | 90 | 3 | 0 | 0 |" in page
    assert "Made by `python " in page
    assert len(list((tmp_path / "evidence" / "perturbation_processor").iterdir())) == 4
    assert (tmp_path / "processor.parquet").exists()


def test_simulated_runs_are_no_processors(found: series.Series) -> None:
    with pytest.raises(SystemExit, match="the counters were simulated"):
        series.require_processor([found.baseline.traces[0]])


def test_step_without_runs_is_refused(tmp_path: Path) -> None:
    for number in range(10):
        write_run(tmp_path, number + 1, "baseline", [])
    with pytest.raises(ValueError, match="no run of with-blocks"):
        series.judge(series.PROGRAMS[0], tmp_path)
