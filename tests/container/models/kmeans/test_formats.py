"""Reading bodies: what it leaves to others while it does. What it reads is in test_requests."""

from __future__ import annotations

import threading
import time

import pytest

from partway.container.models.kmeans import formats
from partway.container.models.kmeans.formats import CSV, JSON, JSON_LINES


@pytest.mark.parametrize(
    ("body", "format_name", "width"),
    [
        (b'{"instances": [{"features": [' + b"1.5, " * 400_000 + b"1]}]}", JSON, 400_001),
        (b'{"features": [1, 2, 3, 4]}\n' * 20_000, JSON_LINES, 4),
        (b"1.25,2.5,3.125,4\n" * 50_000, CSV, 4),
    ],
    ids=["wide", "lines", "csv"],
)
def test_reading_a_large_body_leaves_the_interpreter_to_others(
    body: bytes, format_name: str, width: int
) -> None:
    """A worker that held it would hold the event loop too."""
    reading = threading.Thread(target=formats.decode, args=(body, format_name, width))
    began = last = time.perf_counter()
    longest = 0.0
    reading.start()
    while reading.is_alive():
        now = time.perf_counter()
        longest = max(longest, now - last)
        last = now
    assert longest < (last - began) / 2
