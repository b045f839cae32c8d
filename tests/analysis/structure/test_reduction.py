from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.structure.classes.planted_phases import phases, same_partition
from unperturbed.analysis.structure.classes.classifiers import MostUsed, Quantiles, Ranges
from unperturbed.analysis.structure.sequence import letters_of, structural_sequence
from unperturbed.collectors.data import Metric, Trace
from unperturbed.errors import DataError

PLACES = np.array([[1.0, 0.001, 0.05], [1.8, 0.03, 0.001], [5.0, 0.1, 0.001]])
"""Cycles, misses and mispredictions an instruction, of three phases."""


def run_of(seed=0, intervals=300, missing=None, kind="hardware", dwell=10):
    """Return a trace of three phases, in intervals of unequal length, and each interval's phase."""
    rng = np.random.default_rng(seed)
    truth = phases(rng, intervals, 3, dwell)
    instructions = rng.integers(500_000, 1_500_000, intervals)
    instructions[-1] = 20
    rates = PLACES[truth] * (1 + 0.02 * rng.normal(size=(intervals, 3)))
    columns = {
        name: rng.poisson(rates[:, at] * instructions) for at, name in enumerate(("cycles", "misses", "mispredicted"))
    }
    columns = {"PAPI_TOT_INS": instructions, **columns, "milestones": np.append(0, np.diff(truth) != 0).astype(int)}
    metrics = [Metric(name, "software" if name == "milestones" else kind) for name in columns if name != missing]
    ends = np.cumsum(rng.integers(8_000_000, 12_000_000, intervals))
    return Trace.from_columns(metrics, columns, begin_ns=np.append(0, ends[:-1]), end_ns=ends), truth


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_runs_of_equal_classes_are_collapsed(accesses):
    found = structural_sequence(accesses, classes={"a": 0, "b": 1, "c": 0})
    runs = [
        (symbol, len(list(group))) for symbol, group in groupby({"a": 0, "b": 1, "c": 0}[access] for access in accesses)
    ]
    assert found.symbols.tolist() == [symbol for symbol, _ in runs]
    assert found.durations.tolist() == found.lengths.tolist() == [length for _, length in runs]
    assert found.starts.tolist() == [sum(length for _, length in runs[:at]) for at in range(len(runs))]
    assert found.labels.tolist() == [{"a": 0, "b": 1, "c": 0}[access] for access in accesses]
    assert (found.elements, len(found), found.unit) == (len(accesses), len(runs), "elements")
    assert (found.symbols.dtype, found.durations.dtype, found.starts.dtype) == (np.int32, np.float64, np.int64)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=30))
def test_durations_are_sums_of_those_given(accesses):
    found = structural_sequence([access for access, _ in accesses], durations=[lasted for _, lasted in accesses])
    assert found.durations.tolist() == [
        sum(lasted for _, lasted in group) for _, group in groupby(accesses, key=lambda one: one[0])
    ]


def test_phases_of_a_trace():
    run, truth = run_of()
    found = structural_sequence(run, name="first")
    assert found.classes.metrics == ("cycles", "misses", "mispredicted")
    assert found.classes.per == "PAPI_TOT_INS"
    assert same_partition(found.labels[:-1], truth[:-1]) == 1.0
    assert found.letters.startswith("AB")
    assert (found.name, found.unit, len(found.outliers), len(found.classes)) == ("first", "intervals", 0, 3)


def test_durations_of_a_trace_in_seconds_and_in_events():
    run, _ = run_of()
    seconds = structural_sequence(run, durations="time")
    assert (seconds.unit, seconds.durations.sum()) == ("s", pytest.approx(run.end_ns[-1] / 1e9))
    misses = structural_sequence(run, durations="misses")
    assert misses.durations.tolist() == np.add.reduceat(run["misses"], misses.starts).tolist()


def test_a_second_run_is_classified_as_the_first():
    first, _ = run_of(seed=1)
    second, truth = run_of(seed=2)
    classes = structural_sequence(first).classes
    found = structural_sequence(second, classes=classes)
    assert found.classes is classes
    assert same_partition(found.labels[:-1], truth[:-1]) == 1.0
    alone = classes.assign(second.values(classes.metrics) / second["PAPI_TOT_INS"][:, None])
    assert np.mean(alone[:-1] == found.labels[:-1]) > 0.98
    lacking, _ = run_of(missing="misses")
    with pytest.raises(DataError, match="no metric 'misses'"):
        structural_sequence(lacking, classes=classes)


def test_a_second_runs_new_phase_is_told():
    rng = np.random.default_rng(3)
    truth = phases(rng, 300, 3, 10)
    places = np.array([[0, 0], [9, 0], [0, 9.0]])
    first = structural_sequence(places[truth] + rng.normal(size=(300, 2)))
    assert len(first.outliers) <= 3
    places[2] = [9, 9]
    second = structural_sequence(places[truth] + rng.normal(size=(300, 2)), classes=first.classes)
    assert set(np.flatnonzero(truth == 2)) - set(second.outliers) <= set(second.mixed)
    assert np.mean(truth[second.outliers] == 2) > 0.98


def test_intervals_between_two_phases_belong_to_one_of_them():
    rng = np.random.default_rng(4)
    truth = np.tile(np.repeat([0, 1, 2], 4), 20)
    between = np.append(truth[1:] != truth[:-1], False)
    share = np.where(between, rng.uniform(0.2, 0.8, len(truth)), 1.0)[:, None]
    rates = PLACES[truth] * share + PLACES[np.roll(truth, -1)] * (1 - share)
    rates *= 1 + 0.01 * rng.normal(size=rates.shape)
    found = structural_sequence(rates)
    assert (found.letters, len(found.classes)) == ("ABC" * 20, 3)
    assert between[found.mixed].all()
    assert len(structural_sequence(rates, smooth=False)) > 62


def test_short_runs_join_a_neighbour_where_asked_for():
    assert structural_sequence("aaabaacc").letters == "ABAC"
    assert structural_sequence("aaabaacc", dwell=2).letters == "AC"
    assert structural_sequence("aaabaacc", dwell=2).durations.tolist() == [6, 2]


def test_text_names_and_numbers_of_few_kinds_have_a_class_each():
    assert structural_sequence("cabba").symbols.tolist() == [0, 1, 2, 1]
    assert structural_sequence(["libc", "main", "libc"]).classes.names == ("libc", "main")
    assert structural_sequence([30, 10, 30]).symbols.tolist() == [1, 0, 1]
    assert structural_sequence(np.array([True, False])).symbols.tolist() == [1, 0]
    assert structural_sequence(np.array(["x", "y"])).symbols.tolist() == [0, 1]
    assert structural_sequence([(0, 1), (0, 2)]).symbols.tolist() == [0, 1]


def test_accesses_of_many_kinds():
    names = [f"m{at}" for at in range(20) for _ in range(20 - at)]
    assert structural_sequence(names).classes.names == (*(f"m{at}" for at in range(9)), "others")
    assert structural_sequence(names, classes=3).classes.names == ("m0", "m1", "others")
    assert structural_sequence(names, classes=MostUsed(2)).symbols.tolist() == [0, 1]
    rng = np.random.default_rng(5)
    regions = np.repeat([1000, 50_000, 1000, 90_000], 80)
    pages = regions + rng.integers(0, 400, 320)
    found = structural_sequence(pages)
    assert found.symbols.tolist() == [0, 1, 0, 2]
    assert structural_sequence(pages, classes=Ranges(2)).symbols.tolist() == [0, 1, 0, 1]


def test_one_access_to_another_region_is_no_mixture():
    rng = np.random.default_rng(6)
    pages = rng.integers(0, 100, 300) + 1000 * np.repeat([0, 1, 2], 100)
    pages[50] = 1050
    assert structural_sequence(pages, classes=3).symbols.tolist() == [0, 1, 0, 1, 2]


def test_bands_of_one_metric():
    run, truth = run_of()
    found = structural_sequence(run, metrics=["misses"], classes=Ranges(2, 0.0, 0.1))
    assert np.array_equal(found.labels[:-1], (truth == 2)[:-1])
    again = structural_sequence(run, classes=found.classes)
    assert np.array_equal(again.symbols, found.symbols)
    assert len(structural_sequence(run, metrics=["misses"], classes=Quantiles(4)).classes) == 4


def test_a_map_takes_a_traces_values():
    run, truth = run_of()
    found = structural_sequence(run, metrics=["milestones"], classes=lambda count: "change" if count else "none")
    assert found.classes.names == ("none", "change")
    both = structural_sequence(run, metrics=["milestones", "misses"], classes=lambda row: int(row[0] > 0))
    assert np.array_equal(both.labels, np.append(0, np.diff(truth) != 0))


def test_metrics_of_the_system_and_arrays_with_names():
    run, truth = run_of(kind="os")
    assert same_partition(structural_sequence(run, per="PAPI_TOT_INS").labels[:-1], truth[:-1]) == 1.0
    found = structural_sequence(PLACES[np.repeat([0, 2], 50)], metrics=["cycles", "misses", "mispredicted"])
    assert found.classes.names == ("cycles low", "cycles high")


@pytest.mark.parametrize("source", [[], "", np.zeros(0), np.zeros((0, 3)), run_of(intervals=1)[0]])
def test_empty_and_shortest_runs(source):
    found = structural_sequence(source)
    assert len(found) == found.elements == found.lengths.sum() == len(source)
    assert len(found.letters) == len(source)


def test_one_class_is_one_symbol():
    for source in ("aaaa", [7.0] * 50, np.random.default_rng(0).normal(size=(100, 2))):
        found = structural_sequence(source)
        assert (found.letters, found.durations.tolist(), len(found.classes)) == ("A", [len(source)], 1)


def test_letters_of_words():
    assert letters_of((0, 1, 27)) == "ABb"
    assert letters_of("xy") == "xy"
    assert letters_of(()) == ""


TRACE, _ = run_of(intervals=20)
NAN = float("nan")


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (
            [1.0, NAN, NAN],
            {},
            r"value of element 1 is nan \(further unusable values: 1\): use finite values, from -1e\+150 to",
        ),
        ([[1, 2], [3, float("inf")]], {"metrics": ["a", "b"]}, "b of element 1 is inf: use finite values"),
        (np.zeros((2, 2, 2)), {}, r"shape \(2, 2, 2\): give values of the shape \(n,\) or \(n, metrics\)"),
        (np.array([1j, 2]), {}, "an array of dtype complex128"),
        (np.float64(3), {}, "the elements are"),
        (
            [1e200, 0.5],
            {},
            r"value of element 0 is 1e\+200: use finite values, from -1e\+150 to 1e\+150; drop the element",
        ),
        (5, {}, "the elements are 5: give a trace, an array, or a sequence"),
        ([[1], [2, 3]], {}, "the rows have 1 to 2 values"),
        ([{}, {}], {}, r"element 0, \{\}, is not hashable"),
        ("ab", {"classes": {"a": 0}}, "element 1, 'b', has no class in the given map"),
        ("ab", {"classes": Quantiles(2)}, "quantiles need numbers, but elements such as 'a' are not numbers: use a"),
        ("ab", {"metrics": ["x"]}, r"elements that are not numbers \(such as 'a'\) cannot be classified by x"),
        (np.zeros((3, 2)), {"classes": Ranges(2)}, "Ranges classify by one metric, not 2: give one"),
        (np.zeros((3, 2)), {"metrics": ["x"]}, "the values have 2 columns, but the classes need 1"),
        (np.zeros((3, 2)), {"metrics": "x"}, r"`metrics` is 'x': give a list of names, as in `\['x'\]`"),
        ([1, 2], {"durations": [1]}, r"`durations` has the shape \(1,\): give one number for each of the 2 elements"),
        ([1, 2], {"durations": [1, -1]}, "duration of element 1 is -1.0: use finite numbers, 0 or more"),
        ([1, 2], {"durations": "time"}, "the elements are not a trace: give an array"),
        (TRACE, {"durations": "nothing"}, "no metric 'nothing'"),
        (TRACE, {"metrics": ["nothing"]}, "no metric 'nothing'"),
        (TRACE, {"metrics": []}, "`metrics` is empty"),
        (TRACE, {"classes": {1: 0}}, "name the metrics in `metrics`"),
        (
            [5.0, 1.0],
            {"classes": structural_sequence("ab").classes},
            r"the given classes include none of the 2 elements \(for example 5.0\)",
        ),
        ("ab", {"classes": structural_sequence([1.0, 2.0]).classes}, r"\(such as 'a'\) cannot be classified by value"),
        (
            [1.0],
            {"classes": structural_sequence(np.eye(3)).classes},
            "the values have 1 column, but the classes need 3",
        ),
        (TRACE, {"classes": structural_sequence(TRACE).classes, "metrics": ["misses"]}, "omit `metrics`"),
        (TRACE, {"classes": structural_sequence(TRACE).classes, "per": "time"}, "omit `per`"),
    ],
)
def test_sources_that_cannot_be_classified(source, options, said):
    with pytest.raises(DataError, match=said):
        structural_sequence(source, **options)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"dwell": 0}, ValueError, "`dwell` is 0: use a number of elements, 1 or more"),
        ({"dwell": 1.5}, TypeError, "integer"),
        ({"classes": 0}, ValueError, "the number of classes is 0: use a whole number from 1 to 256"),
        ({"classes": "ab"}, TypeError, "`classes` is 'ab': use an integer, Quantiles"),
        ({"classes": 2.5}, TypeError, "`classes` is 2.5: use an integer"),
    ],
)
def test_options_that_are_wrong(options, error, said):
    with pytest.raises(error, match=said):
        structural_sequence([1.5, 2.5], **options)


def test_what_the_first_run_had_not_is_a_symbol_of_its_own_in_the_second() -> None:
    rng = np.random.default_rng(11)

    def phases(order: str) -> np.ndarray:
        levels = {"a": 1.0, "b": 5.0, "x": 40.0}
        return np.concatenate([levels[phase] + 0.05 * rng.normal(size=8) for phase in order])

    first = structural_sequence(phases("ab" * 20), classes=2)
    second = phases("ab" * 10 + "xb" * 3 + "ab" * 5)
    second[4] = 40.0
    made = structural_sequence(second, classes=first.classes)
    assert made.letters == "AB" * 10 + "CB" * 3 + "AB" * 5, "one odd element alone is not a phase"
    assert 4 in made.outliers


def test_an_access_that_the_first_run_had_not_is_a_symbol_of_its_own() -> None:
    first = structural_sequence(["parse", "sort", "sort", "write"] * 3)
    second = structural_sequence(["parse", "link", "link", "sort", "write"], classes=first.classes)
    assert second.letters == "ADBC"
    assert second.outliers.tolist() == [1, 2]
