"""Each sample of AWS's page "Common data formats for inference", as it stands there.

It is taken, or refused with the fault that is in it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.protocol.formats.cases import read, refused

FIRST = [1.5, 16.0, 14.0, 23.0]

DENSE = '{ "instances": [ { "features": [1.5, 16.0, 14.0, 23.0] } ] }'
DENSE_DATA = (
    '{ "instances": [ { "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } } } ] }'
)
SEVERAL = """{
    "instances": [
        // First instance.
        { "features": [ 1.5, 16.0, 14.0, 23.0 ] },
        // Second instance.
        { "features": [ -2.0, 100.2, 15.2, 9.2 ] }
    ]
}"""
SPARSE = """{
    "instances": [
        {"data": {"features": { "keys": [26, 182, 232, 243, 431], "shape": [2000],
                                "values": [1, 1, 1, 4, 1] } } },
        {"data": {"features": { "keys": [0, 182, 232, 243, 431], "shape": [2000],
                                "values": [13, 1, 1, 4, 1] } } },
    ]
}"""
SPARSE_LINE = (
    '{"data": {"features": { "keys": [26, 182, 232, 243, 431], "shape": [2000], '
    '"values": [1, 1, 1, 4, 1] } } }'
)
LINE = '{ "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } }'
A_BRACE_TOO_FEW = f"the line is not JSON: Expecting ',' delimiter at column {len(LINE) + 1}"
LINES = f"""\
{{"data": {{"features": {{ "keys": [0, 1, 3], "shape": [4], "values": [1, 4, 1] }} }} }}
{LINE}
{{ "features": [1.5, 16.0, 14.0, 23.0] }}"""


@pytest.mark.parametrize(
    ("body", "content_type", "rows"),
    [
        ("1.5,16.0,14,23.0", "text/csv", [FIRST]),
        ("1.5,16.0,14,23.0", "text/CSV; label_size=0", [FIRST]),
        (DENSE, "application/JSON", [FIRST]),
        (DENSE_DATA, "application/JSON", [FIRST]),
        (SEVERAL.replace("// First instance.", "").replace("// Second instance.", ""),
         "application/json", [FIRST, [-2.0, 100.2, 15.2, 9.2]]),
        ('{ "features": [1.5, 16.0, 14.0, 23.0] }', "application/JSONLINES", [FIRST]),
        (LINE + "}", "application/JSONLINES", [FIRST]),
        (LINES.replace(LINE, LINE + "}"), "application/JSONLINES", [[1, 4, 0, 1], FIRST, FIRST]),
    ],
)  # fmt: skip
def test_those_without_a_fault(body, content_type, rows):
    assert read(body.encode(), content_type).dense().tolist() == rows


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (SPARSE.replace("},\n    ]", "}\n    ]"), "application/JSON"),
        (SPARSE_LINE, "application/JSONLINES"),
    ],
)
def test_the_sparse_ones(body, content_type):
    rows = read(body.encode(), content_type).dense()
    assert rows.shape[1] == 2000
    assert np.flatnonzero(rows[0]).tolist() == [26, 182, 232, 243, 431]
    assert rows[0, [26, 182, 232, 243, 431]].tolist() == [1, 1, 1, 4, 1]


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        # JavaScript around it, and comments.
        (f"let request = {DENSE}", "application/json",
         "the body is not JSON: expected { or [ at byte 0"),
        (SEVERAL, "application/json",
         f"the body is not JSON: expected a record at byte {SEVERAL.index('//')}"),
        # A comma after the last record.
        (SPARSE, "application/JSON",
         f"the body is not JSON: expected a record after the comma at byte {SPARSE.rindex(']')}"),
        # A brace too few.
        (LINE, "application/JSONLINES",
         f"record 0 (line 1): {A_BRACE_TOO_FEW}"),
        (LINES, "application/JSONLINES",
         f"record 1 (line 2): {A_BRACE_TOO_FEW}"),
        # Lines that follow each other without a line's end, as the page prints them.
        (f"{SPARSE_LINE} {SPARSE_LINE}", "application/JSONLINES",
         f"record 0 (line 1): the line is not JSON: Extra data at column {len(SPARSE_LINE) + 2}"),
        # What stands for a number.
        ('{"instances": [{"data": {"<field name>": dataElement}}]}', "application/json",
         "record 0: the record is not JSON: Expecting value at byte 41"),
        # The three members, all empty.
        ('{"instances": [{"data": {"x": {"keys": [], "values": [], "shape": []}}}]}',
         "application/json", "record 0: the record has 0 features; it must have 1 to 2147483647"),
    ],
)  # fmt: skip
def test_those_with_one(body, content_type, reason):
    assert refused(body.encode(), content_type) == reason
