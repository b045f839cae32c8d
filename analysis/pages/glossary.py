"""Terms of this tool with their meanings: the source of the site's glossary and of the glossaries in reports; verbs."""

from __future__ import annotations

GLOSSARY = {
    "alignment, warp path": "A mapping between the intervals of two runs that show the same work.",
    "anchor": "One cheap software metric that every configuration except the baseline collects. All runs can be "
    "aligned by it. The configuration that adds only this metric has the same name.",
    "anomaly": "A fault of a run that its event log shows: a crash, lost events, a missing event type, "
    "desynchronisation, slow streaming, a slow phase.",
    "baseline": "Runs of the program with the sampler in it and no software metric: all others are compared with them.",
    "campaign": "All runs of one spec, and the folder that contains them.",
    "certified subset": "Metrics that leave the program unperturbed when they are collected together, as shown by runs "
    "made for this test.",
    "confidence interval": "A range computed from the runs so that it contains the true change in "
    "90 % of campaigns, or as many as the level states.",
    "configuration": "The metrics that one kind of run collects: the baseline, the anchor, or one subset.",
    "derived metric": "A metric computed from other metrics in each interval, such as IPC.",
    "dose": "The number of increments for each event of a subset. Of several, one counts; the others cost the same. A "
    "line through several doses, extended to 0, gives the value without counting.",
    "dynamic time warping (DTW)": "A method that stretches two signals in time until they match best.",
    "equivalence test": "A test that can show a change to be smaller than the tolerance. The verdict is then "
    "“unperturbed”.",
    "false discovery rate": "The average share of findings that are wrong.",
    "gauge": "A value that can rise and fall, such as a queue's length. A counter, in contrast, only grows.",
    "hardware metric": "An event that the processor counts, such as a cache miss. If counters are simulated, a model "
    "of the processor counts it.",
    "imbalance": "The largest count of an MPI rank over the mean of all ranks: 1 if all do the same work.",
    "inner correlation": "ρ of two metrics within one run.",
    "look": "A judgement of a campaign that runs until decided, after a planned number of runs. The looks share α.",
    "milestone": "An event that happens at the same point of the work in every run. It shows whether an alignment is "
    "correct.",
    "minimum-effect test": "A test that can show a change to be larger than the tolerance. The verdict is then "
    "“perturbed”.",
    "multiplexing": "Counting more events than the processor has counters. The events take turns, and their counts are "
    "estimated, by default scaled up. They are marked as estimates.",
    "noise floor": "The smallest change that a number of runs can show, given the variation between runs on a host.",
    "outer correlation": "ρ of one metric between two aligned runs.",
    "overhead": "Instructions and time that measuring adds. A small overhead does not mean a small perturbation.",
    "p, corrected": "How often runs of an unchanged program would show a change at least this large, "
    "corrected for multiple comparisons.",
    "pass": "A group of hardware metrics that one run can count without multiplexing. More metrics need more passes.",
    "perturbation": "A change of correlations or totals that is caused by measuring.",
    "perturbed": "The verdict on a change that is shown to be larger than the tolerance.",
    "phase word": "A sequence of interval classes that recurs in a run, such as “read, sort, write”.",
    "plan": "The subsets found by the search for a partition, with the evidence for each.",
    "point": "One combination of parameter values in a sweep.",
    "rank": "One of the processes of an MPI program, with all that it starts. Each has verdicts of its own.",
    "ρ (Spearman's rank correlation)": "How closely two signals rise and fall together: 1 in step, 0 unrelated, −1 in "
    "opposition.",
    "role": "What a thread was created to run, and as which of several: worker#2. Runs of one program have the same "
    "roles.",
    "round": "Consecutive runs of all configurations with the same size of the environment. Runs of a round are "
    "compared with each other, because what the round varies cancels out.",
    "run": "One execution of the program, for one configuration and one pass.",
    "sampling interval": "A short slice of a run. Every metric has one value per interval. The sequence of values is "
    "its signal.",
    "sham": "A build that has a configuration's rewritten code but does not count. It shows whether a change comes "
    "from the counting or from the rewritten code and its place.",
    "shifted": "The verdict on a change that is shown to exist, perhaps within the tolerance. More runs could decide.",
    "simulated counter": "A count from callgrind's model of a processor, for hosts without hardware counters. It is "
    "always marked as simulated.",
    "smallest visible change": "The change that this many runs would show with a statistical power of 80 %. "
    "Smaller changes may have been missed.",
    "software metric": "An event in the program's own code, such as calls of a function, counted by instrumentation.",
    "spec": "The YAML file that describes a campaign: program, metrics, runs, analysis.",
    "subset": "Software metrics that are collected together in one configuration.",
    "sweep": "A campaign that runs a program with different parameter values and produces a table.",
    "tolerance": "The largest change that you declare to be harmless: of ρ, or of a total in per cent.",
    "total": "The count of a metric over a whole run, or the run's time. Totals have their own verdicts.",
    "trace": "All signals of one run: a table with one row per interval and one column per metric.",
    "undecided": "The verdict if neither a change is shown, nor that it stays within the tolerance. More runs could "
    "decide.",
    "unperturbed": "The verdict on a change that is shown to stay within the tolerance.",
    "until decided": "A way to choose the number of runs: configurations whose verdicts are open get further runs, in "
    "up to six looks.",
    "waiting": "Time that an MPI rank spends in calls that return only when another rank has done its part.",
    "warm-up": "The start of a run that differs from the rest, because the program sets itself up, fills caches or "
    "compiles its own code.",
}
"""Term → meaning, sorted; terms are in lower case unless they are names."""

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
    "total",
    "perturbation",
    "tolerance",
    "unperturbed",
    "perturbed",
    "shifted",
    "undecided",
    "confidence interval",
    "equivalence test",
    "minimum-effect test",
    "smallest visible change",
    "p, corrected",
    "round",
    "look",
    "noise floor",
    "alignment, warp path",
    "milestone",
)
"""Terms that a campaign's report explains, in the order of their use on the page."""

VERBS = {
    "compare": ("two groups of runs", "a change, its interval and p"),
    "classify": ("a change with corrected p", "its verdict"),
    "decide": ("the changes of a family", "the verdict on each"),
    "combine": ("several verdicts", "one"),
    "check": ("the runs of a campaign", "all of its verdicts"),
    "judge": ("a campaign, or the runs that a search asks for", "the check, with all that is shown beside it"),
}
"""Verbs in the names of the analysis's steps: what each takes, and what it returns."""
