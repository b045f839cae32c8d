"""The plain loop against the one in LLVM's language: the same cells, last rows and predecessors, to the last bit."""

import numba
import numpy as np
import pytest

from unperturbed.analysis.alignment.dtw import lanes


@pytest.mark.parametrize("element", [np.float64, np.int32])
@pytest.mark.parametrize(("recording", "banded"), [(False, False), (True, True)])
def test_both_loops_do_the_same(element, recording, banded):
    vector = lanes.record_in_band if recording else lanes.advance

    def call(arrays, numbers):
        vector(arrays, numbers)

    compiled = numba.njit(call)
    plain = lanes._plain(recording=recording, banded=banded)
    rng = np.random.default_rng(1)
    count, height, steps, metrics = lanes.LANES_BYTES // np.dtype(element).itemsize, 3, 9, 2
    state = rng.integers(0, 50, (2 + height) * count).astype(element)
    x, y = (rng.integers(0, 9, (metrics, size)).astype(element) for size in (height * count, steps + 2 * count))
    above = rng.integers(0, 50, steps).astype(element)
    left = []
    for loop in (compiled, plain):
        written = state.copy(), np.zeros(steps, element), np.zeros(steps * height * count // 4, np.uint8)
        arrays = (written[0], x, y, above, written[1], written[2])
        loop(arrays, (height, steps, steps + 5, 40, 70, element(1), element(1 << 29)))
        left.append(written)
    for one, other in zip(*left, strict=True):
        np.testing.assert_array_equal(one, other)
    assert left[0][2].any() == recording
