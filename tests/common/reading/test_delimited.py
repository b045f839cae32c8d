"""Separators, headings, encodings and faults of text tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from unperturbed.common.reading.cells import read_columns
from unperturbed.common.reading.delimited import TextTable, read_delimited
from unperturbed.errors import DataError

ROWS = [(at, at * at / 10, ("lu", "fft")[at % 2]) for at in range(12)]


def table(text: str | bytes, name: str = "t.csv") -> TextTable:
    return read_delimited(text.encode() if isinstance(text, str) else text, Path(name))


def lines(separator: str = ",") -> str:
    return "".join(separator.join(map(str, row)) + "\n" for row in ROWS)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|", " ", "   "])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.txt"])
def test_separators_are_found(separator: str, name: str) -> None:
    found = table(separator.join(("n", "time", "kind")) + "\n" + lines(separator), name)
    assert found.frame.columns == ["n", "time", "kind"]
    assert found.frame.rows() == ROWS


def test_decimal_commas_are_no_separators() -> None:
    frame, _ = read_columns(table("n;t\n1;2,5\n2;3,5\n3;4,5\n").frame, separator=";")
    assert frame.rows() == [(1, 2.5), (2, 3.5), (3, 4.5)]


def test_a_table_without_heading_keeps_its_first_row_and_says_so() -> None:
    found = table(lines())
    assert found.frame.columns == ["column_1", "column_2", "column_3"]
    assert found.frame.rows() == ROWS
    assert "the first line has values" in found.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "x,lu,?\n" * 1 + "y,fft,3\nx,lu,4\ny,lu,3\n",
        "e,s,n\nt,s,y\ne,b,n\ne,s,y\n",
        "2024-05-01,3\n2024-05-02,4\n",
        "12 MiB,3\n14 MiB,4\n",
        "2,3,4\n3,4,5\n4,5,6\n",
    ],
)
def test_values_in_the_first_line_are_no_names(text: str) -> None:
    assert table(text).frame.height == text.count("\n")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("kernel,1,2,4,8\nlu,3,2,1,1\nfft,4,3,2,2\n", ["kernel", "1", "2", "4", "8"]),
        (",0.001,0.01,0.4\n0.1,3,2,1\n0.2,4,3,2\n", ["column_1", "0.001", "0.01", "0.4"]),
        ("access,4KiB,64KiB\nseq,3,2\nrandom,4,3\n", ["access", "4KiB", "64KiB"]),
        ("kernel,2024-05-01,2024-05-02\nlu,3,2\nfft,4,3\n", ["kernel", "2024-05-01", "2024-05-02"]),
        ("word\nfirst of two\nlast of two\nall of two\n", ["word"]),
        ("0,1,2\n3,2,1\n4,3,2\n", ["0", "1", "2"]),
        ("a,b\nx,y\nz,w\n", ["a", "b"]),
        ("#n,t\n1,2\n3,5\n", ["n", "t"]),
        ("# by hand\n# n t\n1 2\n3 5\n", ["n", "t"]),
        ("# by hand\n\nn,t\n1,2\n# stopped\n3,5\n", ["n", "t"]),
        ("sep=;\nn;t\n1;2\n3;5\n", ["n", "t"]),
        ("Runs of March,,\n,,\nn,t,u\n1,2,3\n3,5,4\n", ["n", "t", "u"]),
        ("Runs of March\nhost: a\nn,t,u\n1,2,3\n3,5,4\n", ["n", "t", "u"]),
        ("n,t,,\n,mean,sd,\n1,2,3,\n3,5,4,\n2,2,2,\n", ["n", "t mean", "t sd"]),
        (",n,t\n0,5,2\n1,6,5\n2,9,1\n", ["n", "t"]),
        ('"n" "t"\n"a" 1 2\n"b" 3 5\n', ["column_1", "n", "t"]),
        ("n,t,\n1,2,\n3,5,\n", ["n", "t"]),
        ("n,,t\n1,2,2\n3,5,5\n", ["n", "column_2", "t"]),
        ("t,t,t_2\n1,2,2\n3,5,5\n", ["t", "t_3", "t_2"]),
    ],
)
def test_headings(text: str, names: list[str]) -> None:
    found = table(text)
    assert found.frame.columns == names
    words = {"column_1", "a", "b", "kernel", "access", "word"}
    assert all(column.dtype.is_numeric() for column in found.frame if column.name not in words)


@pytest.mark.parametrize("units", ["s,MiB", "[s],(MiB)"])
def test_a_line_of_units_is_no_row(units: str) -> None:
    found = table(f"n,time,mem\n,{units}\n" + "1,2,3\n2,4,6\n3,6,8\n")
    assert found.units == {"time": "s", "mem": "MiB"}
    assert found.frame.rows() == [(1, 2, 3), (2, 4, 6), (3, 6, 8)]


def test_a_line_of_marks_is_a_row() -> None:
    assert table("n,time\n?,?\n1,2\n2,3\n3,4\n").frame.height == 4


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_encodings(encoding: str) -> None:
    unit = "s" if encoding in ("utf-16-le", "utf-16-be") else "µs"
    text = f"n,time ({unit})\n1,2\n3,4\n"
    found = table(text.encode(encoding))
    assert found.frame.columns == text.partition("\n")[0].split(",")
    assert found.frame.rows() == [(1, 2), (3, 4)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines_and_blank_rows(end: str) -> None:
    assert table(end.join(("n,t", "1,2", "", "3,4", ",", ""))).frame.rows() == [(1, 2), (3, 4)]


def test_types_that_show_late_are_right() -> None:
    body = "1,1\n" * 11_000
    frame, _ = read_columns(table(f"n,t\n{body}2.5,a\n99999999999999999999999,7\n").frame, texts=["t"])
    assert frame["n"].to_list()[-2:] == [2.5, 1e23]
    assert frame["t"].to_list()[-2:] == ["a", "7"]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("n,t\n1,2\n3,4,5\n", "t.csv:3:5: the line has 3 fields, but the table has 2 columns"),
        ('n,t\n"1\n1",2\n3,4,5\n', "t.csv:4:5: the line has 3 fields"),
        ("\n\n", "t.csv: the file has no rows"),
        ("n,t\n1,\0\n", "t.csv:2: the line has a zero byte"),
    ],
)
def test_faults_have_their_place(text: str, fault: str) -> None:
    with pytest.raises(DataError) as raised:
        table(text)
    assert fault in str(raised.value)


def test_short_lines_are_said() -> None:
    found = table("n,t,u\n1,2,3\n1,2\n3,4,5\n")
    assert found.frame["u"].to_list() == [3, None, 5]
    assert "1 line has fewer than 3 fields (the first is line 3); the rest is blank" in found.notes


def test_a_quote_inside_a_field_is_a_letter() -> None:
    assert table('n,t\n5" pipe,1\n6" pipe,2\n').frame["n"].to_list() == ['5" pipe', '6" pipe']


def test_the_place_of_a_cell() -> None:
    found = table('# c\nn,t\n1,2\n\n"a, b",?\n# c\n3,*\n')
    assert found.place(1, 1) == "5:8"
    assert found.place(2, 1) == "7:3"


def test_names_that_come_again_are_no_rows() -> None:
    found = table("n,t\n1,2\n2,3\nn,t\n3,4\nn,t\n4,?\n")
    assert found.frame.columns == ["n", "t"]
    assert found.frame["n"].to_list() == [1, 2, 3, 4]
    assert "the names again in 2 lines, left out (the first is line 4)" in found.notes
    assert found.place(3, 1) == "7:3"


def test_levels_of_names_may_be_numbers() -> None:
    rows = "".join(f"{at},{at / 2},{at / 3},{at / 4}\n" for at in range(1, 9))
    found = table(f"network,1,1,2\nnode,1,2,1\nhemi,lh,rh,lh\n,,,\n{rows}")
    assert found.frame.columns == ["network node hemi", "1 1 lh", "1 2 rh", "2 1 lh"]
    assert found.frame.height == 8
    assert found.notes == ("names in line 1 and 2 and 3",)


def test_a_failed_row_is_no_level_of_names() -> None:
    assert table("1,2,3\nfailed,failed,failed\n2,3,4\n3,4,5\n").frame.height == 4


def test_comments_that_look_like_rows_are_named() -> None:
    found = table("song,plays\nImagine,3\n#9 Dream,2\n# a remark\nHelp,4\n")
    assert found.frame.height == 2
    assert "1 line with the fields of a row, but # at the beginning, left out as a comment (the first is line 3)" in (
        found.notes
    )


@pytest.mark.parametrize(
    "titles",
    [
        "Results of run 5\n",
        "Results of run 5, host a\n",
        "Results of run 5, host a, day 2\n",
        "Results\nof run 5\n",
        "Results, run 5\nof host a\n",
    ],
)
@pytest.mark.parametrize("units", ["", "-,s\n"])
def test_titles_above_two_columns(titles: str, units: str) -> None:
    table = read_delimited(f"{titles}n,t\n{units}1,0.5\n2,0.6\n3,0.7\n".encode(), Path("x.csv"))
    assert table.frame.to_dict(as_series=False) == {"n": [1, 2, 3], "t": [0.5, 0.6, 0.7]}
    count = titles.count("\n")
    assert f"{count} line{'s' * (count > 1)} above the names left out" in table.notes[-1]


def test_names_of_several_words_above_units_are_no_title() -> None:
    table = read_delimited(b"Level 2 cache misses, time\nM,s\n1,0.5\n2,0.6\n3,0.7\n", Path("x.csv"))
    assert table.units == {"Level 2 cache misses": "M", "time": "s"}
