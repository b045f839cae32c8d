"""Attribute a change to the counting or to the code layout, by sham builds.

Instrumentation moves code, and a program whose code lies elsewhere misses its caches elsewhere: Mytkowicz et al.,
"Producing wrong data without doing anything obviously wrong" (2009). One binary is one sample of layout. A *sham* build
has the same rewriting with inert instructions in place of the counting: what it shows against the baseline is layout
(and the instructions' mere presence), what the counting build shows against the sham is the counting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from unperturbed.analysis.perturbation.verdict import SHOWN, Change, OriginName, Verdict, VerdictName

_ORIGINS: Mapping[tuple[bool, bool], OriginName] = {
    (True, True): "both",
    (True, False): "layout",
    (False, True): "counting",
    (False, False): "unclear",
}


def origin_of_change(layout: VerdictName, counting: VerdictName) -> OriginName:
    """Name what a change comes from.

    Parameters
    ----------
    layout : VerdictName
        Verdict on the sham runs against the baseline.
    counting : VerdictName
        Verdict on the counting runs against the sham runs.

    Returns
    -------
    OriginName
        What was shown to be there: *layout*, *counting*, *both*; *unclear* when neither was. Layout effects shown alone
        do not exclude a counting effect too small to be shown, and the reverse.
    """
    return _ORIGINS[layout in SHOWN, counting in SHOWN]


def with_origins(verdict: Verdict, layout: Verdict, counting: Verdict) -> Verdict:
    """Mark each change of a configuration that is shown with its origin: counting, layout or both.

    Parameters
    ----------
    verdict : Verdict
        On the configuration against the baseline.
    layout : Verdict
        On its sham runs against the baseline.
    counting : Verdict
        On the configuration against its sham runs.
    """
    of_layout, of_counting = _by_pair(layout), _by_pair(counting)
    return replace(
        verdict,
        changes=tuple(
            replace(change, origin=origin_of_change(of_layout[key].verdict, of_counting[key].verdict))
            if change.verdict in SHOWN
            and (key := (change.check, change.first, change.second)) in of_layout.keys() & of_counting.keys()
            else change
            for change in verdict.changes
        ),
    )


def _by_pair(verdict: Verdict) -> dict[tuple[str, str, str], Change]:
    return {(change.check, change.first, change.second): change for change in verdict.changes}
