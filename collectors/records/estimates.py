"""Estimates of the counts of metrics that took turns on a processor's counters.

A metric has a counter during a part of an interval, or during none of it. The estimates differ in what they take from
the rest of the run:

- `scaled`: the count, divided by the share of time (perf and PAPI do so); no value without any time on a counter.
- `interpolated`: without a counter, a rate changes linearly from the last interval with one to the next one (after
  W. Mathur and J. Cook, "Toward accurate performance evaluation using hardware counters", 2003).
- `cleaned`: outliers of scaled counts, more than 5 standard deviations above the mean, become the median, and missing
  counts the mean of the 5 nearest in time (after Y. Lv et al., "CounterMiner", MICRO 2018).
- `smoothed`: the rates of all metrics are a random walk, whose steps have a covariance that is estimated from the run;
  the result has the most probable rates. Metrics that are always counted show when the others change. BayesPerf
  (S. Banerjee et al., ASPLOS 2021) has such relations from a model of the processor; here the run shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unperturbed.collectors.data.trace import SCALING, Metric, Trace
from unperturbed.collectors.sources.limits import Shared

FloatArray = NDArray[np.float64]

_NEIGHBOURS, _DEVIATIONS = 5, 5.0  # CounterMiner's
_ROUNDS = 12  # Of expectation and maximisation; further ones change little
_TINY = 1e-9  # Added to variances, so that covariances can be inverted
_FEWEST = 3  # Intervals from which rates of other intervals can be estimated
_COUNTED = SCALING[2]


@dataclass(frozen=True)
class Observed:
    """What metrics counted while they had a counter, and for how long; arrays of shape (intervals, metrics)."""

    counts: FloatArray
    enabled_ns: FloatArray  # Length of the interval
    running_ns: FloatArray  # Time on a counter

    @property
    def rates(self) -> FloatArray:
        """Return the counts per nanosecond on a counter; NaN without any."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.running_ns > 0, self.counts / self.running_ns, np.nan)


def scaled(observed: Observed) -> FloatArray:
    """Return the counts divided by the share of time on a counter; NaN without any."""
    return observed.rates * observed.enabled_ns


def interpolated(observed: Observed) -> FloatArray:
    """Return the counts, with interpolated rates in the time without a counter."""
    return observed.counts + (observed.enabled_ns - observed.running_ns) * _interpolated_rates(observed)


def _interpolated_rates(observed: Observed) -> FloatArray:
    rates = observed.rates
    middle = np.cumsum(observed.enabled_ns, axis=0) - observed.enabled_ns / 2
    for column in range(rates.shape[1]):
        there = np.isfinite(rates[:, column])
        if there.any():
            rates[:, column] = np.interp(middle[:, column], middle[there, column], rates[there, column])
    return rates


def cleaned(observed: Observed) -> FloatArray:
    """Return scaled counts without outliers, and with the mean of the nearest counts where there is none."""
    made = scaled(observed)
    for column in made.T:
        there = np.flatnonzero(np.isfinite(column))
        if not len(there):
            continue
        known = column[there]
        known = np.where(known > known.mean() + _DEVIATIONS * known.std(), np.median(known), known)
        column[there] = known
        for row in np.flatnonzero(~np.isfinite(column)):
            nearest = np.argsort(np.abs(there - row), kind="stable")[:_NEIGHBOURS]
            column[row] = known[nearest].mean()
    return made


def smoothed(observed: Observed) -> FloatArray:
    """Return the counts, with the most probable rates of a random walk in the time without a counter."""
    unit = observed.counts.sum(axis=0) / np.maximum(observed.running_ns.sum(axis=0), 1)
    unit = np.where(unit > 0, unit, 1.0)
    walk = _Walk.fit(replace(observed, counts=observed.counts / unit))
    rest = np.maximum(observed.enabled_ns - observed.running_ns, 0)
    made: FloatArray = observed.counts + rest * np.maximum(walk.mean, 0) * unit
    return np.where((observed.running_ns > 0).any(axis=0), made, np.nan)


METHODS: Mapping[str, Callable[[Observed], FloatArray]] = MappingProxyType(
    {"scaled": scaled, "interpolated": interpolated, "cleaned": cleaned, "smoothed": smoothed}
)
"""The estimates by name."""

SCALED = "scaled"


def estimated_columns(shared: Sequence[tuple[Metric, Shared]], estimate: str) -> Iterator[tuple[Metric, NDArray[Any]]]:
    """Yield each metric's estimated counts, and the columns that they were estimated from (`SCALING`)."""
    parts = zip(*((each.counts, each.enabled_ns, each.running_ns) for _, each in shared), strict=True)
    made = estimate_counts(Observed(*(np.stack(arrays, axis=1).astype(np.float64) for arrays in parts)), estimate)
    for at, (metric, each) in enumerate(shared):
        whole = each.running_ns.sum() / max(1, each.enabled_ns.sum())
        partly = bool((each.running_ns < each.enabled_ns).any())
        how = f" (multiplexed: {estimate} from {whole:.0%} of the time)" if partly else ""
        yield replace(metric, scaled=partly, meaning=f"{metric.meaning}{how}"), made[:, at]
        columns = (
            ("time during which {} was enabled", "ns", each.enabled_ns),
            ("time during which {} was on a counter", "ns", each.running_ns),
            ("events of {} while it was on a counter", metric.unit, each.counts),
        )
        for suffix, (meaning, unit, column) in zip(SCALING, columns, strict=True):
            if suffix != _COUNTED or estimate != SCALED:  # a scaled count and its times tell what was counted
                said = meaning.format(metric.name)
                yield Metric(f"{metric.name}{suffix}", "os", unit=unit, source=metric.source, meaning=said), column


def estimate_counts(observed: Observed, estimate: str) -> FloatArray:
    """Return estimated counts, by `scaled` if there are too few intervals; 0 in an interval of no length."""
    made = METHODS[SCALED if len(observed.counts) < _FEWEST else estimate](observed)
    return np.where(observed.enabled_ns > 0, made, 0.0)


def read_shared(trace: Trace, metrics: Sequence[str]) -> Observed:
    """Return what metrics of a trace counted while they had a counter; one that has no times had it all the time."""
    ones = np.ones(len(trace))
    columns = []
    for name in metrics:
        enabled, running = (
            trace[f"{name}{suffix}"].astype(np.float64) if f"{name}{suffix}" in trace else ones
            for suffix in SCALING[:2]
        )
        if f"{name}{_COUNTED}" in trace:
            counts = trace[f"{name}{_COUNTED}"].astype(np.float64)
        else:
            share = np.divide(running, enabled, out=np.zeros_like(ones), where=enabled > 0)
            counts = np.where(running > 0, np.nan_to_num(trace[name]) * share, 0.0)
        columns.append((counts, enabled, running))
    return Observed(*(np.stack(arrays, axis=1) for arrays in zip(*columns, strict=True)))


def _mean(values: FloatArray) -> FloatArray:
    """Return the mean of each column over the rows that have a value; 0 without any."""
    there = np.isfinite(values)
    means: FloatArray = np.where(there, values, 0.0).sum(axis=0) / np.maximum(there.sum(axis=0), 1)
    return means


@dataclass(frozen=True)
class _Walk:
    """Rates that are a random walk: their means and covariances given all that was counted."""

    mean: FloatArray  # Shape (intervals, metrics)
    covariance: FloatArray  # Shape (intervals, metrics, metrics)
    between: FloatArray  # Covariance of an interval with the one before, shape (intervals - 1, metrics, metrics)

    @classmethod
    def fit(cls, observed: Observed) -> _Walk:
        """Estimate the covariance of steps and the noise by expectation and maximisation; return the last walk.

        The noise of a rate grows with the share of the interval that was not counted: the rest may differ from it.
        """
        rates, size = observed.rates, observed.counts.shape[1]
        share = np.clip(observed.running_ns / np.maximum(observed.enabled_ns, 1), _TINY, 1)
        partly = (1 - share) / share
        there = np.isfinite(rates)
        variance = _mean((rates - _mean(rates)) ** 2) + _TINY
        steps = np.diff(np.nan_to_num(_interpolated_rates(observed)), axis=0)
        step = np.atleast_2d(np.cov(steps.T)) + 1e-6 * np.eye(size)
        noise = 0.1 * variance
        used = there & (partly > 0)
        for _ in range(_ROUNDS):
            walk = cls.given(rates, noise * partly, step, variance)
            moved = np.diff(walk.mean, axis=0)
            either = walk.covariance[1:] + walk.covariance[:-1] - walk.between - walk.between.transpose(0, 2, 1)
            step = (moved.T @ moved + either.sum(axis=0)) / len(moved)
            step = (step + step.T) / 2 + _TINY * np.eye(size)
            missed = (np.nan_to_num(rates) - walk.mean) ** 2 + np.einsum("tii->ti", walk.covariance)
            sums = np.sum(np.divide(missed, partly, out=np.zeros_like(missed), where=used), axis=0)
            noise = np.where(used.any(axis=0), sums / np.maximum(used.sum(axis=0), 1), noise) + _TINY
        return walk

    @classmethod
    def given(cls, rates: FloatArray, noise: FloatArray, step: FloatArray, variance: FloatArray) -> _Walk:
        """Return the walk given observed rates, by the Kalman filter and the smoother of Rauch, Tung and Striebel.

        `rates`: NaN where a metric had no counter. `noise`: Variance of each rate. `step`: Covariance of the steps.
        `variance`: Of the first rates, around their mean.
        """
        count, size = rates.shape
        ahead, ahead_of = np.empty((count, size)), np.empty((count, size, size))
        mean, covariance = np.empty((count, size)), np.empty((count, size, size))
        now, spread = _mean(rates), np.diag(variance)
        for at in range(count):
            spread = spread + step if at else spread
            ahead[at], ahead_of[at] = now, spread
            seen = np.flatnonzero(np.isfinite(rates[at]))
            own = spread[:, seen]
            total = own[seen] + np.diag(noise[at, seen] + _TINY)
            gain = np.linalg.solve(total, own.T).T
            now = now + gain @ (rates[at, seen] - now[seen])
            spread = spread - gain @ own.T
            spread = (spread + spread.T) / 2
            mean[at], covariance[at] = now, spread
        between = np.empty((max(count - 1, 0), size, size))
        for at in range(count - 2, -1, -1):
            back = np.linalg.solve(ahead_of[at + 1], covariance[at]).T
            mean[at] += back @ (mean[at + 1] - ahead[at + 1])
            between[at] = covariance[at + 1] @ back.T
            covariance[at] += back @ (covariance[at + 1] - ahead_of[at + 1]) @ back.T
        return cls(mean, covariance, between)
