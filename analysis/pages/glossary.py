"""The words of this tool, each with one meaning: the source of the site's glossary and of the reports' word lists."""

from __future__ import annotations

GLOSSARY = {
    "alignment, warp path": "Which interval of one run shows the same work as which of another.",
    "anchor": "One cheap software metric that every configuration but the baseline collects. All runs can be "
    "aligned by it. The configuration that adds only this metric has the same name.",
    "anomaly": "A fault of a run that its event log shows: a crash, lost events, desynchronisation, slow streaming.",
    "baseline": "Runs with hardware metrics alone: the closest measurement to an undisturbed program.",
    "campaign": "All runs of one spec, and the folder that holds them.",
    "certified subset": "Metrics that were shown, by runs made for that purpose, to leave the program unperturbed when "
    "they are collected together.",
    "confidence interval": "The range that the true change lies in, given how much runs differ among themselves.",
    "configuration": "The metrics that one kind of run collects: the baseline, the anchor, or one subset.",
    "derived metric": "A metric computed from others, interval by interval, such as IPC.",
    "dynamic time warping (DTW)": "A method that stretches two signals along time until they match best.",
    "equivalence test": "A test that shows a change to be smaller than the tolerance. Its result is “unperturbed”.",
    "false discovery rate": "The share of findings that are wrong, on average.",
    "gauge": "A value that is read, such as a queue's length. A counter, in contrast, only grows.",
    "hardware metric": "An event that the processor counts (or a model of it, when counters are simulated), such as "
    "cache misses.",
    "inner correlation": "ρ of two metrics within one run.",
    "milestone": "An event that happens at the same point of the work in every run. It shows whether an alignment is "
    "right.",
    "minimum-effect test": "A test that shows a change to be larger than the tolerance. Its result is “perturbed”.",
    "multiplexing": "More events share the processor's counters than there are counters. Each is counted part of the "
    "time and scaled up. Such counts are estimates, and are marked as scaled.",
    "noise floor": "The smallest change that a number of runs can show on a host, from how runs of one program vary.",
    "outer correlation": "ρ of one metric between two aligned runs.",
    "overhead": "Instructions and time that measuring adds. A small overhead does not mean a small perturbation.",
    "p, corrected": "How often chance alone would show such a change, corrected for multiple comparisons.",
    "pass": "A group of hardware metrics that one run can count without multiplexing. More metrics take more passes.",
    "perturbation": "A change of correlations that is caused by measuring.",
    "phase word": "A sequence of interval classes that recurs in a run, such as “read, sort, write”.",
    "plan": "The subsets that a search for a partition found, with the evidence for each.",
    "point": "One combination of a sweep's parameters.",
    "ρ (Spearman's rank correlation)": "How closely two signals rise and fall together: 1 in step, 0 unrelated, −1 in "
    "opposition.",
    "run": "One execution of the program, for one configuration and one pass.",
    "sampling interval": "A short slice of a run. Every metric has one value per interval. The sequence of values is "
    "its signal.",
    "sham": "A build with the rewritten code of a configuration that counts nothing. It shows whether a change comes "
    "from the counting or from the code's new place.",
    "simulated counter": "A count of callgrind's model of the processor, used where a host has no counters. It is "
    "never shown as hardware.",
    "smallest visible change": "The change that this many runs would show with a statistical power of 80 %. "
    "Smaller ones may have been missed.",
    "software metric": "An event in the program's own code, such as calls of a function, counted by instrumentation.",
    "spec": "The YAML file that describes a campaign: program, metrics, runs, analysis.",
    "subset": "Software metrics that are collected together in one configuration.",
    "sweep": "A campaign that runs a program over its parameters and ends in a table.",
    "tolerance": "The largest change of ρ that you declare to be harmless.",
    "total": "What a metric counts over a whole run, or the run's time. Totals have verdicts of their own.",
    "trace": "All signals of one run: a table with one row per interval and one column per metric.",
}
"""Term: meaning. Sorted, a term in lower case unless it is a name."""

CAMPAIGN_TERMS = (
    "hardware metric",
    "software metric",
    "sampling interval",
    "trace",
    "baseline",
    "configuration",
    "anchor",
    "ρ (Spearman's rank correlation)",
    "inner correlation",
    "outer correlation",
    "perturbation",
    "tolerance",
    "confidence interval",
    "equivalence test",
    "minimum-effect test",
    "smallest visible change",
    "p, corrected",
    "alignment, warp path",
    "milestone",
)
"""The terms that the report of a campaign explains, in the order in which a reader meets them."""
