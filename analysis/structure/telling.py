"""Which metric tells a run's classes apart: what is drawn above its words."""

from __future__ import annotations

import numpy as np

from unperturbed.analysis.structure.elements import AUTO, Source, elements_of
from unperturbed.analysis.structure.metric_classes import MetricClasses
from unperturbed.analysis.structure.scaling import FloatArray
from unperturbed.analysis.structure.sequence import StructuralSequence

__all__ = ["telling_metric"]


def telling_metric(source: Source, sequence: StructuralSequence) -> tuple[str, FloatArray] | None:
    """Return the metric whose ranks differ most between the classes of a run's elements, and its values.

    Parameters
    ----------
    source : Trace, array of shape (n,) or (n, metrics), or sequence of accesses
        What the sequence was made of.
    sequence : StructuralSequence

    Returns
    -------
    (name, float64 of shape (elements,)) or None
        Rates, as they were classified; None where the elements are no numbers.
    """
    classes = sequence.classes
    metrics, per = (classes.metrics, classes.per) if isinstance(classes, MetricClasses) else (None, AUTO)
    elements = elements_of(source, metrics=metrics, per=per)
    if elements.rates is None or not len(elements):
        return None
    values, labels = elements.rates.values, sequence.labels
    ranks = values.argsort(axis=0, kind="stable").argsort(axis=0).astype(np.float64)
    sizes = np.maximum(np.bincount(labels), 1)
    between = []
    for column in ranks.T:
        means = np.bincount(labels, column) / sizes
        between.append(float(np.var(means[labels])))
    best = int(np.argmax(between))
    of = f" per {elements.per}" if elements.per else ""
    return f"{elements.metrics[best]}{of}", values[:, best]
