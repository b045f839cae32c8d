import math
import threading

import numpy as np
import pytest

from unperturbed.analysis.alignment import distance_matrix, dtw, warp_paths
from unperturbed.analysis.alignment.dtw import pairs
from unperturbed.errors import DataError


@pytest.fixture
def series():
    rng = np.random.default_rng(2)
    return [rng.normal(size=(int(length), 2)) * (1, 50) for length in rng.integers(1, 90, 7)]


@pytest.mark.parametrize("options", [{}, {"penalty": 0.5}, {"band": 5}, {"band": 0, "penalty": 1.0}])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_costs_and_paths_are_those_of_each_pair(series, options, workers, monkeypatch):
    monkeypatch.setattr(pairs, "_CHUNK_CELLS", 1000)  # several chunks, in several threads
    matrix = distance_matrix(series, workers=workers, **options)
    paths = warp_paths(series, workers=workers, **options)
    assert sorted(paths) == [(a, b) for a in range(7) for b in range(a + 1, 7)]
    for (a, b), path in paths.items():
        alone = dtw(series[a], series[b], **options)
        assert matrix[a, b] == matrix[b, a] == path.cost == alone.cost
        assert np.array_equal(path.x_index, alone.x_index)
        assert np.array_equal(path.y_index, alone.y_index)
    assert np.array_equal(np.diag(matrix), np.zeros(7))


def test_one_scale_serves_all_pairs(series):
    paths = warp_paths(series, scale="range")
    (scale,) = {path.scale for path in paths.values()}
    assert scale is not None
    matrix = distance_matrix(series, scale="range")
    assert np.array_equal(matrix, distance_matrix([rows / scale for rows in series]))
    assert matrix[2, 5] == paths[2, 5].cost


def test_progress_is_told_from_the_calling_thread_and_ends_at_all_pairs(series, monkeypatch):
    monkeypatch.setattr(pairs, "_CHUNK_CELLS", 1000)
    told = []
    distance_matrix(
        series, workers=2, progress=lambda done, all_pairs: told.append((done, all_pairs, threading.get_ident()))
    )
    done = [entry[0] for entry in told]
    assert len(done) > 3
    assert done == sorted(set(done))
    assert told[-1] == (21, 21, threading.get_ident())


def test_an_error_in_the_callback_stops_the_work(series, monkeypatch):
    monkeypatch.setattr(pairs, "_CHUNK_CELLS", 1000)

    def refuse(done, all_pairs):
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with pytest.raises(KeyboardInterrupt):
        warp_paths(series, workers=2, progress=refuse)
    for thread in set(threading.enumerate()) - before:  # they end by themselves, a moment later
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_many_whole_numbers_give_the_costs_of_real_ones():
    rng = np.random.default_rng(6)
    whole = [rng.integers(0, 50, 3000) for _ in range(9)]  # 36 pairs of 9 million cells
    costs = distance_matrix(whole, penalty=2)
    for a, b in ((0, 1), (3, 8)):
        assert costs[a, b] == dtw(whole[a], whole[b], penalty=2).cost


def test_one_series_has_no_pairs():
    assert np.array_equal(distance_matrix([[1.0, 2.0]]), [[0.0]])
    assert warp_paths([[1.0, 2.0]]) == {}


def test_wrong_arguments_are_refused_by_name():
    with pytest.raises(DataError, match="no series given"):
        distance_matrix([])
    with pytest.raises(DataError, match=r"series\[1\]\[0\] is nan"):
        warp_paths([[1.0], [math.nan]])
    with pytest.raises(DataError, match=r"series\[0\] has 1 metric and series\[2\] has 3"):
        distance_matrix([[1.0], [2.0], np.ones((2, 3))])
    with pytest.raises(DataError, match=r"the differences between series\[0\] and series\[2\] overflow"):
        distance_matrix([[1e308], [1e308], [-1e308]])
    with pytest.raises(ValueError, match="`workers` is 0"):
        distance_matrix([[1.0], [2.0]], workers=0)
    with pytest.raises(ValueError, match="`penalty` is -1"):
        warp_paths([[1.0], [2.0]], penalty=-1)
