"""What was tried for rounds that miss a class: the way in use is the tool's, on the campaigns of the table."""

from __future__ import annotations

import numpy as np

from experiments.calibration.common import METRICS, TOLERANCE, classified
from experiments.calibration.rounds import draw_in_rounds
from experiments.calibration.rounds_attempts import EDGES, WAYS, drawn, perturbed_by, rounds_attempts
from unperturbed.analysis.perturbation.correlation import from_fisher


def test_the_way_in_use_gives_the_verdicts_of_the_table() -> None:
    campaigns, seed, case = 12, 3, EDGES["r = 5"]
    runs = drawn(campaigns, seed, case, TOLERANCE)
    (in_use,) = (judge for name, judge in WAYS.items() if "in use" in name)
    found = perturbed_by(in_use, runs)
    rng = np.random.default_rng([seed, 6, 1, 99, case.r, 0])
    for _ in range(campaigns):
        draw_in_rounds(rng, "inner", case.kind, case.shared, (10, case.r), 0.0)
    for campaign in range(campaigns):
        own = draw_in_rounds(rng, "inner", case.kind, case.shared, (10, case.r), TOLERANCE)
        columns = slice(campaign * METRICS, (campaign + 1) * METRICS)
        np.testing.assert_allclose(from_fisher(runs.after[:, columns]), own.observed)
        np.testing.assert_allclose(from_fisher(runs.before[: case.r, columns]), own.reference[own.rounds])
        limits, compared = np.full(METRICS, TOLERANCE), own.chosen()
        names = classified(compared, compared.p_beyond(limits), limits)
        assert found[campaign].tolist() == [name == "perturbed" for name in names]


def test_the_table_has_a_row_for_each_way() -> None:
    head, rule, *rows = rounds_attempts(4, 1)
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(WAYS)
    assert {line.count("|") for line in (head, rule, *rows)} == {head.count("|")}
