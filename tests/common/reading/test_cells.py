"""What the text of a column means."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta

import polars as pl
import pytest

from unperturbed.common.reading.cells import ColumnReading, describe, read_columns, read_numbers


def read(
    cells: Sequence[object], separator: str = ",", texts: Sequence[str] = ()
) -> tuple[list[object], ColumnReading]:
    frame, (reading,) = read_columns(pl.DataFrame({"x": cells}), separator=separator, texts=texts)
    return frame["x"].to_list(), reading


MARKS = ["?", "*", "-", ".", "n/a", "N/A", "#N/A", "NA", "nan", "null", "None", "<not counted>", "<not supported>", ""]


@pytest.mark.parametrize("mark", MARKS)
def test_a_mark_among_numbers_is_a_missing_value(mark: str) -> None:
    values, reading = read(["1.5", mark, "2", f" {mark} "])
    assert values == [1.5, None, 2, None]
    assert (reading.what, reading.missing, reading.words) == ("numbers", {mark: 2}, {})


def test_marks_are_counted_each() -> None:
    values, reading = read(["7", "?", "*", "?", None, "8"])
    assert values == [7, None, None, None, None, 8]
    assert all(isinstance(value, int) for value in (values[0], values[-1]))
    assert reading.missing == {"?": 2, "": 1, "*": 1}


def test_a_column_may_be_named_as_counts_are() -> None:
    frame, (reading,) = read_columns(pl.DataFrame({"rows": ["7", "?", "8"]}), separator=",", texts=[])
    assert (frame["rows"].to_list(), reading.missing) == ([7, None, 8], {"?": 1})


def test_a_word_among_nearly_only_numbers_is_missing_and_named() -> None:
    cells = [*map(str, range(19)), "timeout"]
    values, reading = read(cells)
    assert values == [*range(19), None]
    assert reading.missing == reading.words == {"timeout": 1}
    assert any("'timeout' in x; if they are categories" in line for line in describe("t", [reading]))
    values, reading = read(cells, texts=["x"])
    assert (values[-1], reading.what, reading.levels) == ("timeout", "categories", 20)


def test_categories_that_are_mostly_numbers_are_said() -> None:
    _, reading = read(["8", "16", "16", "default", "32", "default"])
    assert (reading.what, reading.words) == ("categories", {"default": 2})
    assert "  categories, although most values are numbers: 'default' in x" in describe("t", [reading])


@pytest.mark.parametrize(
    "cells", [["8", "16", "default"], ["1a", "2b"], ["3.11.1", "3.12.0"], ["0x10", "0x20"], ["O2", "O3"]]
)
def test_text_stays_text(cells: list[str]) -> None:
    values, reading = read(cells)
    assert (values, reading.what, reading.levels) == (cells, "categories", len(cells))


def test_words_that_mark_missing_numbers_are_categories_of_text() -> None:
    values, reading = read(["none", "-", "full", "?", "none"])
    assert values == ["none", "-", "full", None, "none"]
    assert (reading.levels, reading.missing) == (3, {"?": 1})


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (["12 MiB", "3.5MiB"], [12, 3.5], "MiB"),
        (["35 %", "7%"], [35, 7], "%"),
        (["$1,200.50", "$3"], [1200.5, 3], "$"),
        (["1 KiB", "2 MiB", "0"], [1024, 2 * 1024**2, 0], "B"),
        (["1.5ms", "2 s", "30 µs"], [0.0015, 2, 3e-5], "s"),
        (["2K", "3M", "17"], [2000, 3_000_000, 17], ""),
        (["2 GHz", "800MHz"], [2e9, 8e8], "Hz"),
        (["$56.7M", "$537K", "$1.2B", "$3"], [56.7e6, 537e3, 1.2e9, 3], "$"),
        (["$56.7M", "$3M"], [56.7, 3], "$M"),
        (["64bit", "32bit"], [64, 32], "bit"),
    ],
)
def test_units_are_named_and_mixed_ones_converted(cells: list[str], values: list[float], unit: str) -> None:
    found, reading = read(cells)
    assert found == pytest.approx(values)
    assert (reading.what, reading.detail) == ("numbers", unit)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["1,234,567", "12"], [1234567, 12]),
        (["1 234", "1 234 567"], [1234, 1234567]),
        (["1\u202f234", "5"], [1234, 5]),
        (["1'234.5", "5"], [1234.5, 5]),
        (["1,234.5", "5,000"], [1234.5, 5000]),
        (["1,5", "2,25", "3"], [1.5, 2.25, 3]),
        (["1.234,5", "2.000"], [1234.5, 2000]),
        (["1.234.567", "5"], [1234567, 5]),
        (["12.345 ms", "?"], [12.345, None]),
        (["0,125", "1,250"], [0.125, 1.25]),
        (["−3", "+4", "1e3", ".5", "5."], [-3, 4, 1000, 0.5, 5]),
    ],
)
def test_separators_of_thousands_and_decimal_commas(cells: list[str], values: list[float | None]) -> None:
    assert read(cells)[0] == values


@pytest.mark.parametrize(
    ("separator", "value", "means"), [(",", 1234, "between thousands"), (";", 1.234, "as decimal signs")]
)
def test_what_an_ambiguous_comma_means_is_said(separator: str, value: float, means: str) -> None:
    values, reading = read(["1,234", "1,234"], separator)
    assert values == [value, value]
    assert reading.detail == f"commas {means}"


def test_a_column_without_commas_below_a_thousand_has_them_between_thousands() -> None:
    values, reading = read(["956", "1,044", "7"], ";")
    assert values == [956, 1044, 7]
    assert reading.detail == "commas between thousands"
    assert read(["1956", "1,044"], ";")[0] == [1956, 1.044]


def test_other_columns_decide_what_a_comma_means() -> None:
    frame, _ = read_columns(pl.DataFrame({"a": ["1,234", "5,678"], "b": ["0.5", "1.25"]}), separator=";")
    assert frame["a"].to_list() == [1234, 5678]
    frame, _ = read_columns(pl.DataFrame({"a": ["1,234", "5,678"], "b": ["1.234", "2.345"]}), separator=";")
    assert frame["a"].to_list() == [1.234, 5.678]
    frame, _ = read_columns(pl.DataFrame({"a": ["1,234", "5,678"], "b": ["1,5", "2,5"]}))
    assert frame["a"].to_list() == [1.234, 5.678]
    frame, _ = read_columns(pl.DataFrame({"a": ["1.234 ms", "?", "5.678 ms"], "b": ["1,5", "2,5", "1.000"]}))
    assert frame.to_dict(as_series=False) == {"a": [1.234, None, 5.678], "b": [1.5, 2.5, 1000]}


@pytest.mark.parametrize(
    ("cells", "values", "detail"),
    [
        (["2024-05-01", "2024-05-11"], [0, 10], "days since 2024-05-01"),
        (["1961-02", "1961-01"], [31, 0], "days since 1961-01-01"),
        (["13.05.2024", "1.5.2024"], [12, 0], "days since 2024-05-01"),
        (["05/13/2024", "05/01/2024"], [12, 0], "days since 2024-05-01"),
        (["13/05/2024", "01/05/2024"], [12, 0], "days since 2024-05-01"),
        (["01/12/1957", "01/01/1958"], [0, 31], "days since 1957-12-01, the day read first"),
        (["02/01/2024", "01/02/2024", "02/01/2024"], [30, 0, 30], "days since 2024-01-02, the month read first"),
        (["3-Jan-24", "1-Jan-24"], [2, 0], "days since 2024-01-01"),
        (["2024-05-01T12:00:00Z", "2024-05-01T12:00:01.5Z"], [0, 1.5], "seconds since 2024-05-01 12:00:00"),
        (["2024-05-01 12:00:00+02:00", "2024-05-01 12:00:00+01:00"], [0, 3600], "seconds since 2024-05-01 10:00:00"),
        (["5/1/2024 1:30 PM", "5/1/2024 1:31 PM"], [0, 60], "seconds since 2024-05-01 13:30:00, the month read first"),
        (["00:01:00", "00:00:30.5"], [60, 30.5], "seconds since midnight"),
        ([date(2024, 5, 1), date(2024, 5, 3)], [0, 2], "days since 2024-05-01"),
        ([datetime(2024, 5, 1, 1), None], [0, None], "seconds since 2024-05-01 01:00:00"),
        ([timedelta(seconds=3), timedelta(milliseconds=5)], [3, 0.005], "seconds"),
    ],
)
def test_dates_become_numbers(cells: list[object], values: list[float], detail: str) -> None:
    found, reading = read(cells)
    assert (found, reading.what, reading.detail) == (values, "dates", detail)


def test_truth_stays_truth() -> None:
    assert read(["TRUE", "False", "NA"])[0] == [True, False, None]


def test_typed_numbers_are_as_given_and_their_gaps_counted() -> None:
    values, reading = read([1.0, None, float("inf"), 2.5])
    assert values == [1.0, None, float("inf"), 2.5]
    assert reading.missing == {"": 1, "infinite": 1}


def test_numbers_of_a_column_for_other_readers() -> None:
    numbers, missing, unit, guess = read_numbers(pl.Series("x", ["1,234,567", "<not counted>", "word", None]))
    assert (unit, guess) == ("", "")
    assert numbers.to_list() == [1234567, None, None, None]
    assert missing.to_list() == [False, True, False, True]


def test_many_columns_are_not_all_named() -> None:
    columns = [ColumnReading(f"c{at}", "numbers") for at in range(100)]
    assert describe("t", columns)[1].endswith("and 40 more (--json lists all)")


@pytest.mark.parametrize(
    ("cells", "days", "first"),
    [
        (["7/31/62", "8/1/64", "1/31/06", "12/31/69"], [0, 732, 15890, 2710], "1962-07-31"),
        (["7/31/02", "8/1/31", "12/31/60"], [0, 10593, 21338], "2002-07-31"),
        (["31.12.99", "1.1.00"], [0, 1], "1999-12-31"),
    ],
)
def test_years_of_two_digits_are_in_the_century_without_a_gap(cells: list[str], days: list[int], first: str) -> None:
    values, reading = read(cells)
    assert values == days
    assert f"since {first}" in reading.detail
