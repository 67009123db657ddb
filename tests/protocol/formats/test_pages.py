"""The pages of the formats: their bytes are read, and their types are those that there are."""

from __future__ import annotations

import re

import pytest

from partway.protocol.formats import ANSWER_TYPES, RECORD_TYPES
from tests.conftest import ROOT
from tests.protocol.formats.cases import read

FORMATS = ROOT / "docs" / "reference" / "formats"
FIRST = [1.5, 16.0, 14.0, 23.0]


def wire(name: str) -> list[bytes]:
    """The bytes in a page's fences: what is behind three spaces is said of them."""
    text = (FORMATS / f"{name}.md").read_text("utf-8")
    return [
        bytes.fromhex(" ".join(re.split(r" {3,}", line.strip())[0] for line in block.splitlines()))
        for block in re.findall(r"^```hex\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


@pytest.mark.parametrize(
    ("name", "media_type", "rows"),
    [
        ("csv", "text/csv", [[FIRST, [-2.0, 100.2, 15.2, 9.2]]]),
        ("libsvm", "text/libsvm", [[[1.5, 0, 0, 23], [0, 100.2, 0, 0]]]),
        ("json", "application/json", [[FIRST]]),
        ("jsonlines", "application/jsonlines", [[[1.5, 2]]]),
        ("recordio-protobuf", "application/x-recordio-protobuf", [[FIRST], [[1, 4, 0, 1]]]),
        ("npy", "application/x-npy", [[[1.5, 16]]]),
    ],
)
def test_the_wire(name, media_type, rows):
    assert [read(body, media_type).dense().tolist() for body in wire(name)] == rows


def test_every_type_has_its_row_and_its_page():
    text = (ROOT / "docs" / "reference" / "formats.md").read_text("utf-8")
    found = re.findall(
        r"^\| \[`([^`]+)`\]\(formats/([^)]+)\) \|.*\| (yes|no) \|$", text, re.MULTILINE
    )
    assert {name for name, _, _ in found} == set(RECORD_TYPES)
    assert {name for name, _, answers in found if answers == "yes"} == set(ANSWER_TYPES)
    assert sorted(path.name for path in FORMATS.iterdir()) == sorted(page for _, page, _ in found)
