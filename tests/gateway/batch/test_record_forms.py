"""Columns of CSV: cut where RFC 4180 has them end, and put together again as they were."""

from __future__ import annotations

import csv

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.batch.record_forms import columns_of, line_of


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (b"", [b""]),
        (b"1.10,16.0", [b"1.10", b"16.0"]),
        (b",,", [b"", b"", b""]),
        (b'"a,b",2', [b'"a,b"', b"2"]),
        (b'1,"say ""no"", now"', [b"1", b'"say ""no"", now"']),
        (b'"",""', [b'""', b'""']),
        (b'5" pipe,2', [b'5" pipe', b"2"]),
        (b'"a",', [b'"a"', b""]),
        (b'"a,b"', [b'"a,b"']),
    ],
)
def test_columns(line: bytes, columns: list[bytes]) -> None:
    assert columns_of(line) == columns
    assert line_of(columns) == line


@pytest.mark.parametrize("line", [b'1,"a', b'1,"a"b,2', b'1,"a""'])
def test_a_quote_that_does_not_end_its_column(line: bytes) -> None:
    with pytest.raises(ValueError, match="begins column 2 does not end at the end"):
        columns_of(line)


@given(st.lists(st.text("a,\" '\t", max_size=6), min_size=1, max_size=6))
def test_columns_are_those_that_pythons_reader_finds(cells: list[str]) -> None:
    line = ",".join(
        '"' + cell.replace('"', '""') + '"' if '"' in cell or "," in cell else cell
        for cell in cells
    )
    columns = columns_of(line.encode())
    assert [next(csv.reader([each.decode()]), [""])[0] if each else "" for each in columns] == cells
    assert line_of(columns) == line.encode()
