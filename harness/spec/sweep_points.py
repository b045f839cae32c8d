"""The points of a sweep: every combination of listed values, or as many as `points` states, drawn by the seed."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from itertools import product

from unperturbed.harness.spec.campaign_spec import CampaignSpec
from unperturbed.harness.spec.values.parameters import Between, Chosen, Listed, Value, combinations


def count_points(spec: CampaignSpec) -> int:
    """Return the number of points of a sweep."""
    count = spec.campaign.points
    return combinations(spec.parameters) if count is None else count


def points(spec: CampaignSpec) -> tuple[Mapping[str, Value], ...]:
    """Return the points of a sweep, each with its value of every parameter in the order of the spec.

    Lists and ranges alone give every combination. Where a parameter is drawn, each point is drawn by the seed, its own
    number and the parameter's name alone: more points leave the first ones as they are, and so does the order of the
    parameters in the spec.
    """
    parameters, count = spec.parameters, spec.campaign.points
    if count is None:
        listed = {name: values.values for name, values in parameters.items() if isinstance(values, Listed)}
        names = sorted(listed)  # the order of keys means nothing, and must not change a point's number
        every = (dict(zip(names, values, strict=True)) for values in product(*(listed[name] for name in names)))
        return tuple({name: point[name] for name in parameters} for point in every)
    seed = spec.campaign.seed
    return tuple(
        {name: _draw(values, random.Random(f"{seed}/{number}/{name}").random()) for name, values in parameters.items()}
        for number in range(1, count + 1)
    )


def _draw(values: Listed | Chosen | Between, chance: float) -> Value:
    """Return the value that a number from [0, 1) stands for."""
    if not isinstance(values, Between):
        return values.values[int(chance * len(values.values))]
    low, high = values.low, values.high
    whole = isinstance(low, int) and isinstance(high, int)
    top = high + 1 if whole else high
    drawn = (
        math.exp(math.log(low) + chance * (math.log(top) - math.log(low)))
        if values.logarithmic
        else low + chance * (top - low)
    )
    # Rounding may lead a hair out of the bounds.
    return min(max(math.floor(drawn) if whole else drawn, low), high)


def at_a_point(spec: CampaignSpec) -> CampaignSpec:
    """Return a sweep at the first of its points, for what is the same at all of them; any other campaign as it is."""
    return spec.at_point(points(spec)[0]) if spec.parameters else spec
