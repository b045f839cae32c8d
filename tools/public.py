"""The public packages: the library's pages, the promise in docs/reference/stability.md and a test share this list."""

from __future__ import annotations

from types import ModuleType

PACKAGES = {
    "unperturbed.harness.library": "Campaigns as objects, and verbs of `import unperturbed as up`.",
    "unperturbed.collectors": "Traces, and the metrics that their columns are.",
    "unperturbed.collectors.data": "Tables of sweeps, derived metrics, and what is stored with a trace.",
    "unperturbed.collectors.imports": "Traces that other tools recorded.",
    "unperturbed.collectors.sources": "Sources of hardware counts.",
    "unperturbed.analysis.perturbation": "Verdicts: did measuring change the program?",
    "unperturbed.analysis.totals": "Verdicts on totals of runs.",
    "unperturbed.analysis.alignment": "Dynamic time warping, alignment of runs, merging.",
    "unperturbed.analysis.partition": "Subsets of metrics that leave the program unperturbed.",
    "unperturbed.analysis.diagnosis": "Diagnosis of event logs.",
    "unperturbed.analysis.structure": "Phases of a run.",
    "unperturbed.analysis.causal": "Causal performance models.",
    "unperturbed.analysis.report": "Pages of results.",
    "unperturbed.harness.exports": "Formats of other tools.",
    "unperturbed.harness.cli.commands": "For extensions: commands.",
    "unperturbed.instrument.events": "Kinds of software events.",
    "unperturbed.harness.spec": "The spec as an object; for extensions: keys at its top.",
    "unperturbed.harness.host": "For extensions: checks of the doctor.",
    "unperturbed.harness.nodes.engines": "For extensions: engines that start the parts of a campaign on nodes.",
    "unperturbed.common.result": "What every result offers: a headline, tables, a frame, a page.",
    "unperturbed.errors": "Exceptions.",
}
"""Each package with a page of its own, in the order of the navigation, and what it holds. Its public names are those in
its `__all__`, or, without one, those it defines. `import unperturbed as up` is public too."""

MOST_NAMES = 350
"""As many names as one can keep promises about."""


def public_names(package: ModuleType) -> list[str]:
    """Return the public names of one of these packages."""
    listed: list[str] | None = getattr(package, "__all__", None)
    if listed is not None:
        return listed
    return [
        name
        for name, what in vars(package).items()
        if not name.startswith("_") and getattr(what, "__module__", None) == package.__name__
    ]
