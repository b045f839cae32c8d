import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unperturbed.analysis.structure.dictionary.monotone import kernel
from unperturbed.analysis.structure.symbols import indel_distances, medoids, nearest_prototype
from unperturbed.errors import DataError

SEGMENTS = st.lists(st.text("abc", max_size=6), min_size=1, max_size=15)


@given(SEGMENTS, st.randoms(use_true_random=False))
def test_equation_4(segments, rng):
    distances = indel_distances(segments)
    members = rng.sample(range(len(segments)), rng.randint(1, len(segments)))
    labels = nearest_prototype(distances, members)
    for segment, label in enumerate(labels.tolist()):
        if segment in members:
            assert members[label] == segment
        else:
            nearest = min(distances[segment, member] for member in members)
            assert label == next(k for k, member in enumerate(members) if distances[segment, member] == nearest)


@given(SEGMENTS)
def test_each_member_of_a_kernel_has_a_class(segments):
    distances = indel_distances(segments)
    members = kernel(distances).members
    assert set(nearest_prototype(distances, members).tolist()) == set(range(len(members)))


@given(SEGMENTS, st.data())
def test_medoids_are_nearest_to_their_class_on_average(segments, data):
    distances = indel_distances(segments)
    members = data.draw(st.lists(st.sampled_from(range(len(segments))), min_size=1, unique=True))
    labels = nearest_prototype(distances, members)
    found = medoids(distances, labels)
    assert len(found) == len(members)
    for number, row in enumerate(found.tolist()):
        own = np.flatnonzero(labels == number).tolist()
        sums = [sum(distances[one, other] for other in own) for one in own]
        assert row == own[sums.index(min(sums))]


def test_compact_clusters_are_isolated_by_the_kernel_and_by_centres_alike():
    """Section 2: of compact clusters far from each other "both methods isolate these clusters in the same way"."""
    clusters = [["abcdef", "abcdf", "bcdef"], ["uvwxyz", "uvwxz", "vwxyz"], ["klmnop", "klmnp", "lmnop"]]
    distances = indel_distances([segment for cluster in clusters for segment in cluster])
    cluster_of = np.repeat(range(3), 3)
    members = kernel(distances, 16).members
    assert set(cluster_of[members].tolist()) == {0, 1, 2}
    assert (cluster_of[members][nearest_prototype(distances, members)] == cluster_of).all()
    three = nearest_prototype(distances, [1, 4, 7])
    assert (three == cluster_of).all()
    assert medoids(distances, three).tolist() == [0, 3, 6]


def test_nothing_to_classify():
    assert nearest_prototype(np.empty((0, 0)), []).tolist() == []
    assert medoids(np.empty((0, 0)), []).tolist() == []


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "`members` is empty"),
        ([2], "`members` contains 2, but `distances` has 2 rows"),
        ([-1], "`members` contains -1, but"),
        ([0, 0], "`members` contains a row twice"),
    ],
)
def test_members_that_are_no_prototypes_are_refused(members, message):
    with pytest.raises(DataError, match=message):
        nearest_prototype(np.zeros((2, 2)), members)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0], r"shape \(1,\): give one label for each of the 2"),
        ([0, -1], "label -1 of segment 1"),
        ([0, 2], "class 1 has no segments"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(DataError, match=message):
        medoids(np.zeros((2, 2)), labels)


def test_a_matrix_is_square():
    with pytest.raises(DataError, match="give a square matrix"):
        nearest_prototype(np.zeros((2, 3)), [0])
