"""Choice of a log's format: by how well each format explains lines from the log's beginning, middle and end."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.analysis.diagnosis.reading.formats import LogFormat, LogSample, ReadOptions
from unperturbed.analysis.diagnosis.reading.sources import Blocks
from unperturbed.analysis.diagnosis.reading.stamps import stamp_of, stamp_of_line
from unperturbed.common.wording import listing
from unperturbed.errors import DataError

_UNLIKE_OTHERS = 3
_NUMBER_AND_NAME = 1
_MATCHES = 0.5
"""Minimum share of the first lines that match."""
_FEW = 5
"""Events below which nothing can be said about their times."""
_ENOUGH = 20
"""Events from which names should recur."""
_GOES_FORWARD = 0.9
"""Minimum share of steps that do not go back, in a format whose time is just a number."""
_RECURS = 0.5
"""Mark for recurring events below which a number that counts lines is not their time."""
_AHEAD = 0.25
"""Score by which a format must be ahead of one of higher rank."""
_TIE = 0.05
_CALL = re.compile(
    r"(?:\[pid +\d+\] |\d+ +)?(?:[a-z_]\w*\(.*|<\.\.\. \w+ resumed>.*)(?:\) += \S.*|<unfinished \.\.\.>)$"
)
"""A call, or a part of one, that strace printed without a time."""
_JOURNAL = "record with `journalctl -o json` or `-o short-iso-precise`"
_OTHERS: Sequence[tuple[re.Pattern[str], str]] = tuple(
    (re.compile(begin), what)
    for begin, what in (
        (r"\s*\[\s*\{|\s*\[\s*\n", "a JSON array: write one object a line, such as by `jq -c '.[]'`"),
        (r"\s*\{\s*\n", "JSON of several lines an object: write one object a line, such as by `jq -c .`"),
        (r"[^\[\n]* \[s=[0-9a-f]+;[^\n]*\n +[A-Z_]+=", f"the output of journalctl -o verbose: {_JOURNAL}"),
        (r"__CURSOR=", f"the output of journalctl -o export: {_JOURNAL}"),
    )
)
"""Beginnings of logs with events of several lines, which no format reads."""


@dataclass(frozen=True)
class _Fit:
    """How well a format explains a log's sampled lines."""

    chosen: LogFormat
    share: float  # of the first lines that match
    times: NDArray[np.int64]
    types: int
    is_dated: bool = False  # whether the lines begin with a date whose day comes first
    failed: bool = False  # whether reading the sample raised a DataError, which tells more than this choice

    @property
    def forward(self) -> float:
        """Share of steps from event to event that do not go back in time."""
        return float((np.diff(self.times) >= 0).mean()) if len(self.times) > 1 else 1.0

    @property
    def recurring(self) -> float:
        """1 if an event type occurs twice or more on average, 0 if none occurs twice."""
        events = len(self.times)
        return min(1.0, 2 * (1 - self.types / events)) if events else 0.0

    @property
    def score(self) -> float:
        """Mark from 0 to 1."""
        return self.share * self.forward * (1 + self.recurring) / 2

    @property
    def no_time(self) -> str:
        """Why the number at the beginning of the lines cannot be a time; empty if it can."""
        if self.chosen.rank != _NUMBER_AND_NAME or len(self.times) < _FEW:
            return ""
        if (self.times == self.times[0]).all():
            return f"it is {self.times[0]} in all of them"
        if len(self.times) >= _ENOUGH and self.forward < _GOES_FORWARD:
            return f"it goes back in {1 - self.forward:.0%} of them"
        if len(self.times) >= _ENOUGH and self.recurring < _RECURS and self._counts(0, 1):
            return "it rises by at most 1 from line to line, and the texts after it do not recur"
        if self.is_dated or all(stamp_of(str(time)) == "compact" for time in self.times[:_ENOUGH].tolist()):
            return "it is a date"
        return ""

    def _counts(self, *steps: int) -> bool:
        """Return whether nearly all times are later than the time before by one of these steps."""
        return float(np.isin(np.diff(self.times), steps).mean()) >= _GOES_FORWARD

    @property
    def suspicion(self) -> str:
        """Warning for a time that rises by 1 with nearly each line."""
        if self.chosen.rank != _NUMBER_AND_NAME or len(self.times) < _ENOUGH or not self._counts(1):
            return ""
        return ". Its time rises by 1 from line to line: check that it is no number of the line"

    @property
    def reason(self) -> str:
        """The numbers behind the choice."""
        return (
            f"{self.share:.0%} of the first lines match, time goes forward in {self.forward:.0%} of {len(self.times):,}"
            f" sampled events, and these are of {self.types:,} types"
        )


def choose_format(formats: Mapping[str, LogFormat], sample: LogSample, options: ReadOptions) -> tuple[LogFormat, str]:
    """Return the requested format, or the one that explains the log best, and the reason for the choice.

    Raise DataError if no format matches half of the first lines, if the times of all that do are no times, or if two
    formats explain the log about equally well but differently.
    """
    if options.format is not None:
        return formats[options.format], ""
    for begin, what in _OTHERS:
        if begin.match("\n".join(sample.lines[:2])):
            raise DataError(f"{sample.source}:1: this is {what}")
    unlike = [name for name, log_format in formats.items() if log_format.rank >= _UNLIKE_OTHERS]
    matching = _matching(formats, unlike, sample, options)
    if matching:
        return formats[max(matching, key=matching.__getitem__)], ""  # no other format has such lines
    matching = _matching(formats, [name for name in formats if name not in unlike], sample, options)
    if "strace" not in matching and _is_strace_without_times(sample.lines):
        raise DataError(
            f"{sample.source}:1: these are system calls without their times: record them with `strace -ttt`, `-tt`, "
            "`-t` or `-r`"
        )
    if not matching:
        raise DataError(
            f"{sample.source}:1: no format matches the first lines, which begin with {sample.lines[0][:60]!r}: give "
            f"the format ({listing((name for name in formats if name != 'pattern'), 'or')}) or, as `pattern`, a "
            "regular expression with the groups `time` and `name`"
        )
    fits = [_try(formats[name], share, sample, options) for name, share in matching.items()]
    possible = [fit for fit in fits if not fit.no_time]
    # A number with decimals needs a unit; a text's date-time does not.
    possible = [fit for fit in possible if not (fit.failed and fit.chosen.rank == _NUMBER_AND_NAME)] or possible
    if not possible:
        wrong = fits[0]
        raise DataError(
            f"{sample.source}:1: the number at the beginning of the lines is no time, because {wrong.no_time}: "
            "give, as `pattern` (--pattern), a regular expression whose group `time` is the time, and whose group "
            "`name` names the event"
        )
    found = _best(possible)
    for other in possible:
        if other is not found and _is_tie(found, other):
            one, two = found.chosen, other.chosen
            raise DataError(
                f"{sample.source}: two formats explain this log about equally well, and differently: {one.name} "
                f"({found.reason}), and {two.name} ({other.reason}). Choose one with `format` (--format {one.name} or "
                f"--format {two.name})"
            )
    rejected = "".join(
        f"; {fit.chosen.name} was rejected: its number is no time, because {fit.no_time}" for fit in fits if fit.no_time
    )
    return found.chosen, found.reason + rejected + found.suspicion


def _is_strace_without_times(lines: Sequence[str]) -> bool:
    """Return whether most lines are calls that strace printed, below a process at most, which is no time."""
    calls = sum(bool(_CALL.match(line)) for line in lines)
    return calls > _MATCHES * len(lines)


def _matching(
    formats: Mapping[str, LogFormat], names: list[str], sample: LogSample, options: ReadOptions
) -> dict[str, float]:
    """Return the formats, of those with these names, that match half of the first lines, and their shares."""
    shares = {name: formats[name].recognise(sample, options) for name in names}
    return {name: share for name, share in shares.items() if share >= _MATCHES}


def _try(chosen: LogFormat, share: float, sample: LogSample, options: ReadOptions) -> _Fit:
    """Read the sampled lines by a format."""
    text = "\n".join([*sample.lines, *sample.further]).encode(errors="replace")
    blocks = Blocks(io.BytesIO(text), max(1 << 12, len(text)))
    trial = replace(options, bad_lines_shown=0)
    try:
        log = chosen.read(blocks, replace(sample, mark_bytes=0, first_end=0), trial)
    except DataError:
        return _Fit(chosen, share, np.empty(0, np.int64), 0, failed=True)
    used: Any = np.unique(log.events)
    is_dated = all(stamp_of_line(line) == "named" for line in sample.lines[:_ENOUGH])
    return _Fit(chosen, share, log.times, len({log.types[number] for number in used.tolist()}), is_dated)


def _best(fits: list[_Fit]) -> _Fit:
    """Return the fit of highest rank, unless one of lower rank is far ahead."""
    found = max(fits, key=lambda fit: (fit.chosen.rank, fit.score))
    for fit in fits:
        if fit.score > found.score + _AHEAD and not found.failed:
            found = fit
    return found


def _is_tie(one: _Fit, two: _Fit) -> bool:
    """Return whether two fits are about equally good, but their times pass differently."""
    if (
        one.failed
        or two.failed
        or abs(one.chosen.rank - two.chosen.rank) > 1
        or abs(one.score - two.score) > _TIE
        or min(len(one.times), len(two.times)) < _FEW
    ):
        return False
    if len(one.times) != len(two.times):
        return True
    first, second = ((fit.times - fit.times[0]).astype(float) for fit in (one, two))
    return not np.allclose(first / max(1.0, np.abs(first).max()), second / max(1.0, np.abs(second).max()), atol=0.01)
