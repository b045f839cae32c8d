import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unperturbed.analysis.alignment.dtw.series import UNREACHED, as_integers

columns = st.lists(st.integers(-50, 50), min_size=1, max_size=20)


@given(columns, columns, st.integers(-1060, 960), st.integers(0, 9))
@settings(max_examples=300, deadline=None)
def test_integers_are_the_values_times_a_power_of_two(x, y, exponent, penalty):
    pair = [np.ldexp(np.array(values, float)[:, None], exponent) for values in (x, y)]
    found = as_integers(pair, np.ldexp(penalty, exponent))
    if len({*x, *y}) == 1 and penalty == 0:
        assert found is None
        return
    assert found is not None
    integers, step, power = found
    low = min(x + y)
    for values, whole in zip((x, y), integers, strict=True):
        assert whole.dtype == np.int32
        assert [int(cell) / 2 ** (power + exponent) for cell in whole[:, 0]] == [value - low for value in values]
    assert step / 2 ** (power + exponent) == penalty
    dearest = max(whole.max() for whole in integers) + step
    assert (len(x) + len(y)) * int(dearest) < UNREACHED


@pytest.mark.parametrize(
    "values",
    [
        [0.1, 0.2, 0.3],
        [0.0, 1.0, 2.0**30],  # a path could cost too much
        [0.0, 1.0, 1 + 2.0**-30],
        [1e308, -1e308],
        [5e-324, 1.0],
        [7.0, 7.0],
    ],
)
def test_others_are_left_as_they_are(values):
    assert as_integers([np.array(values)[:, None]] * 2, 0.0) is None


def test_a_penalty_that_is_not_whole_keeps_real_numbers():
    series = [np.arange(5.0)[:, None]] * 2
    assert as_integers(series, 0.5) is not None
    assert as_integers(series, 0.1) is None
