"""The tests that can be selected by name: one class a module, found without a list."""

from __future__ import annotations

from unperturbed.analysis.causal.independence.base import IndependenceTest
from unperturbed.common.extensions import classes_in


def independence_tests() -> dict[str, type[IndependenceTest]]:
    """Return the tests of conditional independence by name, those of other distributions last."""
    return classes_in(__name__, IndependenceTest, group="unperturbed.independence_tests")  # type: ignore[type-abstract]
