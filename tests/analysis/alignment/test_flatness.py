"""Stretches where two runs have nothing in common."""

import numpy as np
import pytest

from unperturbed.analysis.alignment import anchored_dtw, dtw
from unperturbed.analysis.alignment.flatness import LEAST_AGREEMENT, WINDOW, agreement, flat_elements


def diagonal(length):
    return dtw(np.arange(length), np.arange(length))


@pytest.mark.parametrize("seed", range(5))
def test_agreement_is_the_correlation_in_a_window(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(90, 2)) + 1e6, rng.normal(size=(90, 2)) + x_like(seed)
    half = WINDOW // 2
    for at, found in enumerate(agreement(x, y)):
        window = slice(max(0, at - half), at + half + 1)
        expected = max(np.corrcoef(x[window, metric], y[window, metric])[0, 1] for metric in (0, 1))
        assert found == pytest.approx(expected, abs=1e-6)


def x_like(seed):
    return np.random.default_rng(seed).normal(size=(90, 2))


def test_what_does_not_vary_agrees_with_nothing():
    series = np.random.default_rng(1).normal(size=(60, 1))
    assert (agreement(np.full((60, 1), 0.1), series) == 0).all()
    assert (agreement(np.full((60, 1), 0.1), np.full((60, 1), 0.3)) == 0).all()


def test_noise_is_flat_and_what_comes_again_is_not():
    rng = np.random.default_rng(2)
    noise = [1 + 0.01 * rng.standard_normal((600, 1)) for _ in "xy"]
    path = diagonal(600)
    assert flat_elements(path, *noise).mean() > 0.97
    shared = rng.standard_normal((600, 1))
    assert not flat_elements(path, shared + noise[0], shared + noise[1]).any()
    # Changes that happen in one run only are not a reason to align by them.
    alone = noise[0] + np.repeat([0.0, 0.5, 0.0], 200)[:, None]
    assert flat_elements(path, alone, noise[1]).mean() > 0.9


def test_noise_seldom_agrees():
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 20_000, 1))
    assert (agreement(x, y) >= LEAST_AGREEMENT).mean() < 0.001


def test_a_shared_step_is_held_with_its_surroundings_only():
    rng = np.random.default_rng(4)
    step = np.repeat([0.0, 1.0], 300)[:, None]
    x, y = (step + 0.02 * rng.standard_normal((600, 1)) for _ in "xy")
    flat = flat_elements(diagonal(600), x, y)
    assert not flat[290:310].any()
    assert flat[20:280].all()
    assert flat[320:580].all()


def test_anchors_and_ends_are_held_and_short_stretches_are_not_flat():
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((2, 200, 1))
    anchors = [(100, 100), (104, 104)]
    path = anchored_dtw(x, y, anchors, penalty=100.0)
    flat = flat_elements(path, x, y)
    at = {(int(i), int(j)): place for place, (i, j) in enumerate(zip(path.x_index, path.y_index, strict=True))}
    assert not flat[[0, -1, *(at[cell] for cell in anchors)]].any()
    assert not flat[at[100, 100] : at[104, 104]].any(), "too short"
    assert flat.mean() > 0.9
