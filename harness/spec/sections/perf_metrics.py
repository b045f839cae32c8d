"""`perf_metrics`: formulas of the metrics of perf's tables that a spec asks for by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from unperturbed.harness.spec.model import Frozen, SpecKey, empty
from unperturbed.harness.spec.sections.measure import Derived
from unperturbed.harness.spec.values.text import Text

PerfMetrics = Annotated[Mapping[Text, Derived], Frozen]

PERF_METRICS = SpecKey(
    "perf_metrics",
    PerfMetrics,
    "Formulas of metrics of perf's tables, by their names there. Leave it out: the tool asks the installed perf for "
    "what `derived` asks for (`perf-metric:NAME`), and records the answer with the campaign. Give a formula where perf "
    "is missing, or to keep it whatever perf is installed.",
    default=empty,
    examples=({"tma_retiring": "'perf::topdown-retiring' / 'perf::slots'"},),
    sample="""\
perf_metrics: {tma_retiring: "'perf::topdown-retiring' / 'perf::slots'"}
""",
    notes="""\
- `derived: {retiring: perf-metric:tma_retiring}` stands for perf's formula of `tma_retiring`. Its events are added to
  `hardware`, and one pass counts all of them where they fit it. `unperturbed metrics tma` lists perf's metrics.
""",
)
