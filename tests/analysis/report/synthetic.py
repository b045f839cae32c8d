"""A campaign that never ran, seeded: a block-sorting program with phases, one configuration of each verdict, failed
runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from scipy import stats

from unperturbed.analysis.perturbation.verdict import Change, Overhead, Verdict, VerdictName, combine
from unperturbed.analysis.perturbation.verdict_text import mean_rho
from unperturbed.analysis.report.alignment import AlignmentExample
from unperturbed.analysis.report.campaign.content import CounterSource, Headline, ReportContent, ReportSettings, RunRow
from unperturbed.collectors.data import Metric, Trace

HARDWARE = {
    "PAPI_TOT_INS": ("Ir", "instructions completed", 2.6e6),
    "PAPI_L1_DCM": ("D1mr + D1mw", "level 1 data cache misses", 4.1e4),
    "PAPI_L1_ICM": ("I1mr", "level 1 instruction cache misses", 220.0),
    "PAPI_L2_TCM": ("ILmr + DLmr + DLmw", "misses of the last simulated cache level", 3.2e3),
    "PAPI_BR_MSP": ("Bcm + Bim", "conditional and indirect branches mispredicted", 2.2e4),
    "PAPI_LD_INS": ("Dr", "loads", 7.4e5),
    "PAPI_SR_INS": ("Dw", "stores", 2.9e5),
}
SOFTWARE = {
    "baseline": (),
    "anchor": ("blocks",),
    "light": ("blocks", "refills"),
    "medium": ("blocks", "pushes", "swaps"),
    "heavy": ("blocks", "compares", "moves"),
}
ADDED = {"anchor": 0.0021, "light": 0.0043, "medium": 0.048, "heavy": 0.172}
_RATES = {"blocks": 0.4, "refills": 9.0, "pushes": 310.0, "swaps": 950.0, "compares": 41_000.0, "moves": 9_500.0}


def make_trace(rng: np.random.Generator, configuration: str, run: str, order: int, intervals: int) -> Trace:
    """A run with four phases a block; in `heavy` the instrumentation smears misses and mispredictions."""
    n = intervals + int(rng.integers(-3, 4))
    t = np.linspace(0, 4, n)
    phase = t % 1
    sorting = (phase < 0.62).astype(float)
    bump = np.exp(-(((phase - 0.4) / 0.12) ** 2))
    noise = {name: rng.normal(0, 1, n) for name in HARDWARE}
    slow = np.convolve(rng.normal(0, 1, n), np.ones(5) / 5, "same")
    shape = {
        "PAPI_TOT_INS": 1 + 0.25 * sorting + 0.03 * noise["PAPI_TOT_INS"],
        "PAPI_L1_DCM": 0.4 + 0.5 * sorting + 0.9 * bump + 0.12 * slow + 0.10 * noise["PAPI_L1_DCM"],
        "PAPI_L1_ICM": 0.5 + 0.6 * (1 - sorting) + 0.20 * noise["PAPI_L1_ICM"],
        "PAPI_L2_TCM": 0.3 + 1.0 * bump + 0.12 * slow + 0.10 * noise["PAPI_L2_TCM"],
        "PAPI_BR_MSP": 0.5 + 0.35 * sorting + 0.12 * slow + 0.16 * noise["PAPI_BR_MSP"],
        "PAPI_LD_INS": 0.9 + 0.3 * sorting + 0.05 * noise["PAPI_LD_INS"],
        "PAPI_SR_INS": 0.7 + 0.4 * (1 - sorting) + 0.06 * noise["PAPI_SR_INS"],
    }
    if configuration == "heavy":
        shape["PAPI_L1_DCM"] += 0.55 * sorting * np.abs(rng.normal(0, 1, n)) - 0.35 * bump
        shape["PAPI_BR_MSP"] += 0.22 * rng.normal(0, 1, n)
    if configuration == "medium":
        shape["PAPI_L1_ICM"] += rng.uniform(0, 0.5) * rng.normal(0, 1, n)
    stretch = 1 + ADDED.get(configuration, 0.0)
    end = np.cumsum(rng.normal(20e6 * stretch, 2e5, n)).astype(np.int64)
    begin = np.concatenate([[0], end[:-1]])
    columns = {name: np.maximum(0, scale * shape[name]).astype(np.int64) for name, (_, _, scale) in HARDWARE.items()}
    metrics = [
        Metric(
            name,
            "simulated",
            source="callgrind",
            meaning=meaning,
            components=tuple(f"callgrind:{part}" for part in events.split(" + ")),
        )
        for name, (events, meaning, _) in HARDWARE.items()
    ]
    columns["IPC"] = np.round(0.8 + 0.5 * sorting - 0.3 * bump + 0.03 * slow, 4)
    metrics.append(
        Metric(
            "IPC",
            "derived",
            unit="ratio",
            semantics="gauge",
            source="formula",
            meaning="PAPI_TOT_INS / PAPI_TOT_CYC",
            components=("callgrind:Ir",),
        )
    )
    for name in SOFTWARE[configuration]:
        busy = bump if name in {"compares", "moves", "swaps"} else (phase < 0.02) if name == "blocks" else sorting
        columns[name] = rng.poisson(_RATES[name] * (0.05 + busy))
        metrics.append(Metric(name, "software", source="instrumentation", meaning=f"times the program does {name}"))
    attributes = {
        "run": run,
        "configuration": configuration,
        "source": "callgrind",
        "clock": "process-cpu",
        "interval_ns": 20_000_000,
        "environment_pad_bytes": 64 * order,
        "order": order,
    }
    return Trace.from_columns(metrics, columns, begin_ns=begin, end_ns=end, attributes=attributes)


def make_change(
    check: str,
    first: str,
    second: str,
    reference: list[float],
    observed: list[float],
    runs: tuple[tuple[str, ...], tuple[str, ...]],
    tolerance: float = 0.1,
    force: VerdictName | None = None,
) -> Change:
    """A change with a t-type interval over runs: made up, but consistent with itself."""
    effect = mean_rho(observed) - mean_rho(reference)
    error = max(1e-4, float(np.hypot(np.std(reference, ddof=1), np.std(observed, ddof=1)) / np.sqrt(len(observed))))
    reach = float(stats.t.ppf(0.95, len(observed) - 1)) * error
    low, high = effect - reach, effect + reach
    p = float(2 * stats.t.sf(abs(effect) / error, len(observed) - 1))
    inside = -tolerance < low and high < tolerance
    verdict: VerdictName = "unperturbed" if inside else "perturbed" if p < 0.002 else "undecided"
    return Change(
        check=check,  # type: ignore[arg-type]
        first=first,
        second=second,
        reference=tuple(reference),
        observed=tuple(observed),
        reference_runs=runs[0],
        observed_runs=runs[1],
        effect=effect,
        low=low,
        high=high,
        p=p,
        p_corrected=min(1.0, 21 * p),
        smallest_visible=2.8 * error,
        tolerance=tolerance,
        verdict=force or verdict,
        runs_to_decide=int(5 * (reach / tolerance) ** 2 * 4) + 6 if verdict == "undecided" else None,
        aligned_on=check == "outer" and first == "IPC",
    )


def _spearman(trace: Trace, names: list[str]) -> np.ndarray:
    """Spearman's coefficients of each two metrics: Pearson's of their ranks."""
    return np.asarray(np.corrcoef(stats.rankdata([trace[name] for name in names], axis=1)))


def _verdict(
    configuration: str, traces: dict[str, tuple[Trace, ...]], reference: str, rng: np.random.Generator
) -> Verdict:
    names = list(HARDWARE)
    run_names = tuple(
        tuple(str(trace.attributes["run"]) for trace in traces[key]) for key in (reference, configuration)
    )
    changes = []
    rho = {key: np.array([_spearman(trace, names) for trace in traces[key]]) for key in (reference, configuration)}
    for (row, first), (column, second) in combinations(enumerate(names), 2):
        before = rho[reference][:, row, column].tolist()
        if configuration == "heavy":
            after = rho[configuration][:, row, column].tolist()
        else:  # left alone, but for one metric of `medium` that its runs cannot tell about
            wide = 0.09 if configuration == "medium" and "PAPI_L1_ICM" in {first, second} else 0.012
            after = list(mean_rho(before) + rng.normal(0, wide, len(traces[configuration])))
        # Every ρ is drawn towards its mean: the made-up baseline is a quiet one.
        before = list(mean_rho(before) + 0.5 * (np.array(before) - mean_rho(before)))
        changes.append(make_change("inner", first, second, before, after, run_names))
    for name in [*names, "IPC"]:
        drop = 0.22 if configuration == "heavy" and name in {"PAPI_L1_DCM", "PAPI_BR_MSP"} else 0.005
        wide = 0.06 if configuration == "medium" and name == "PAPI_L1_ICM" else 0.006
        before = list(np.tanh(rng.normal(1.7, 0.03, len(traces[reference]))))
        after = list(
            np.clip(
                np.tanh(rng.normal(1.7, 0.03, len(traces[configuration])))
                - drop
                + rng.normal(0, wide, len(traces[configuration])),
                -1,
                1,
            )
        )
        changes.append(make_change("outer", name, name, before, after, run_names))
    added = ADDED[configuration]
    return Verdict(
        configuration=configuration,
        reference=reference,
        verdict=combine([change.verdict for change in changes]),
        changes=tuple(changes),
        excluded=(("PAPI_TOT_INS – IPC", "correlated by construction: both are computed from callgrind:Ir"),),
        overhead=Overhead(added, added * 0.83, None if configuration == "anchor" else added * 1.2),
    )


def make_content(seed: int = 20, *, baseline_runs: int = 10, runs: int = 5, intervals: int = 170) -> ReportContent:
    """35 runs: a baseline, an anchor, and subsets `light` (unperturbed), `medium` (undecided) and `heavy`
    (perturbed)."""
    rng = np.random.default_rng(seed)
    traces: dict[str, tuple[Trace, ...]] = {}
    rows: list[RunRow] = []
    order = 0
    for configuration in SOFTWARE:
        count = baseline_runs if configuration == "baseline" else runs
        made = []
        for repetition in range(1, count + 1):
            order += 1
            run = f"{configuration}-{repetition:02d}"
            made.append(make_trace(rng, configuration, run, order, intervals))
            if run == "heavy-03":
                rows.append(
                    RunRow(
                        run,
                        configuration,
                        repetition,
                        1,
                        "failed",
                        1.2,
                        None,
                        64 * order,
                        0.4,
                        0.9,
                        "exit code 139 (SIGSEGV)\nstderr: …",
                    )
                )
            attempt = 2 if run == "heavy-03" else 1
            load = [float(value) for value in rng.uniform(0.2, 1.4, 2)]
            rows.append(
                RunRow(
                    run,
                    configuration,
                    repetition,
                    attempt,
                    "done",
                    float(rng.normal(4.1, 0.1)),
                    len(made[-1]),
                    64 * order,
                    *load,
                )
            )
        traces[configuration] = tuple(made)
    rows.append(
        RunRow("medium-06", "medium", 6, 2, "failed", 120.0, None, 0, 0.3, 0.5, "no end after 120 s: timed out")
    )
    verdicts = tuple(_verdict(name, traces, "baseline", rng) for name in ADDED)
    return ReportContent(
        campaign="quickstart",
        verdicts=verdicts,
        source=CounterSource(
            "simulated by callgrind",
            "This host has no processor counters that a program may read, so callgrind's model of caches (32 "
            "KiB L1, 1 MiB last "
            "level) and branch prediction counted instead; counts are repeatable and do not depend on the host.",
            simulated=True,
        ),
        settings=ReportSettings(0.05, 0.1, "20 ms", "process-cpu", ("IPC",), "blocks", baseline_runs, runs),
        headline=Headline(
            "blocksort", "blocksort -c corpus.txt", "2031-05-04 10:12 UTC", 176.0, "2 CPUs, Linux 6.18", "0.1.0"
        ),
        traces=traces,
        software_by_configuration=SOFTWARE,
        alignment=make_alignment(traces),
        runs=tuple(rows),
        failures=("medium-06: no end after 120 s: timed out (2 attempts)",),
        provenance={
            "Host": {
                "CPU": "Model of 2 vCPUs at 2.6 GHz",
                "kernel": "6.18.2",
                "CPUs used": "1",
                "governor": "performance",
            },
            "Tools": {"unperturbed": "0.1.0", "compiler": "gcc 12.2.0", "valgrind": "3.19.0", "Python": "3.11.2"},
            "Campaign": {
                "seed": "1",
                "order": "blocks",
                "spec digest": "sha256:5f2c…",
                "output digest": "sha256:9a1b…",
            },
            "Simulated caches": {"I1": "32 KiB 8-way 64 B", "D1": "32 KiB 8-way 64 B", "LL": "1 MiB 16-way 64 B"},
        },
        spec_text='name: quickstart\nprogram:\n  source: blocksort\n  run: "{build}/blocksort -c '
        '{inputs}/corpus.txt"\n',
    )


def make_alignment(traces: dict[str, tuple[Trace, ...]]) -> AlignmentExample:
    first, second = traces["baseline"][0], traces["heavy"][0]
    n, m = len(first), len(second)
    steps = max(n, m)
    wobble = np.sin(np.linspace(0, 9, steps)) * 2
    x_index = np.maximum.accumulate(np.clip(np.linspace(0, n - 1, steps) + wobble, 0, n - 1).astype(int))
    y_index = np.linspace(0, m - 1, steps).astype(int)
    scores = np.array([0] * 41 + [1] * 17 + [2] * 6 + [3] * 2 + [15])
    return AlignmentExample(
        "baseline-01",
        "heavy-01",
        "IPC",
        first["IPC"],
        second["IPC"],
        x_index,
        y_index,
        scores,
        "Shown: the first baseline run and the first run of the slowest configuration.",
    )


def make_hostile(content: ReportContent) -> ReportContent:
    """The same campaign with names and texts that try to break out of the page."""
    evil = "</script><img src=x onerror=alert(1)>\"'&<!--%{y}\u2028\u202e\ud800\x00日本"
    renamed = {name: f"{name}{evil}" for name in ("heavy", "baseline")}
    verdicts = tuple(
        replace(
            verdict,
            configuration=renamed.get(verdict.configuration, verdict.configuration),
            reference=renamed.get(verdict.reference, verdict.reference),
            changes=tuple(
                replace(change, first=f"{change.first}{evil}", second=f"{change.second}{evil}", note=evil)
                for change in verdict.changes
            ),
        )
        for verdict in content.verdicts
    )
    traces = {
        renamed.get(name, name): tuple(_renamed_trace(trace, evil) for trace in group)
        for name, group in content.traces.items()
    }
    assert content.alignment is not None
    return replace(
        content,
        campaign=f"quick{evil}",
        verdicts=verdicts,
        traces=traces,
        alignment=replace(content.alignment, metric=evil, first=evil, description=evil),
        software_by_configuration={
            renamed.get(name, name): tuple(f"{metric}{evil}" for metric in metrics)
            for name, metrics in content.software_by_configuration.items()
        },
        runs=tuple(replace(row, run=f"{row.run}{evil}", error=evil) for row in content.runs),
        failures=(evil,),
        notes=(evil,),
        method=(evil,),
        provenance={evil: {evil: evil}},
        spec_text=f"name: {evil}\n" * 3,
        headline=replace(content.headline, program=evil, command=evil),
        source=replace(content.source, name=evil, sentence=evil),
    )


def _renamed_trace(trace: Trace, evil: str) -> Trace:
    metrics = [replace(metric, name=f"{name}{evil}", meaning=evil, unit=evil) for name, metric in trace.metrics.items()]
    return Trace.from_columns(
        metrics,
        {f"{name}{evil}": column for name, column in trace.columns.items()},
        begin_ns=trace.begin_ns,
        end_ns=trace.end_ns,
        attributes={**trace.attributes, "run": f"{trace.attributes['run']}"},
    )
