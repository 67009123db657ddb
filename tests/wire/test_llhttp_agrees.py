"""Our server reads requests as llhttp alone does, but for the differences of one table."""

from __future__ import annotations

import random

import pytest

from tests.wire.llhttp_alone import DIFFERENCES, Outcome, Reader, expected
from tests.wire.recording_server import RecordingServer, cut, ours
from tests.wire.request_bytes import CASES, CLASSES, NEXT, altered

#: Longer cases are cut at fewer places: a cut within a long value is like the one before.
FEW_BYTES = 1000


@pytest.fixture
async def server(anyio_backend):
    async with RecordingServer() as server:
        yield server


def ways(data: bytes, draw: random.Random) -> list[list[bytes]]:
    """Whole, cut at random places, and byte by byte where that is soon done."""
    places = range(1, len(data))
    at_random = [cut(data, draw.sample(places, min(count, len(places)))) for count in (1, 2, 5)]
    by_bytes = [cut(data, places)] if len(data) <= FEW_BYTES else []
    return [[data], *at_random, *by_bytes]


def shown(data: bytes, pieces: list[bytes]) -> str:
    return f"{data[:2000]!r} in pieces of {[len(each) for each in pieces][:20]} bytes"


@pytest.mark.parametrize("kind", CLASSES)
async def test_each_class(server, kind):
    draw = random.Random(kind)
    for name, case in CLASSES[kind].items():
        data = case + NEXT
        outcome, _ = expected(data)
        for pieces in ways(data, draw):
            assert await ours(server, pieces) == outcome, f"{name}: {shown(data, pieces)}"


@pytest.mark.parametrize("seed", range(4))
async def test_recorded_requests_that_are_altered(server, seed):
    draw = random.Random(seed)
    for case in altered(75, seed):
        data = case + NEXT
        outcome, _ = expected(data)
        pieces = draw.choice(ways(data, draw)[:4])
        assert await ours(server, pieces) == outcome, shown(data, pieces)


def differences(data: bytes) -> tuple[Outcome, Outcome, set[str]]:
    outcome, used = expected(data)
    return Reader(data).outcome, outcome, used


def test_each_difference_is_one_and_has_a_case():
    """A row that no longer differs fails here, and a difference without a row."""
    seen = set()
    for name, case in CASES.items():
        alone, outcome, used = differences(case + NEXT)
        assert (alone != outcome) == bool(used), name
        assert used <= set(DIFFERENCES), name
        seen |= used
    assert seen == set(DIFFERENCES)


def test_nothing_is_accepted_that_llhttp_refuses():
    """A difference ends earlier, or goes on where llhttp leaves off by its own rule."""
    for data in [case + NEXT for case in CASES.values()] + list(altered(300, 9)):
        alone, outcome, used = differences(data)
        if len(outcome.requests) > len(alone.requests):
            assert used & {"unknown upgrade", "body before an upgrade"}, data
