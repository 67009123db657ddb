from __future__ import annotations

import threading

import pytest

from partway.protocol.gathering import gathering, joined
from partway.protocol.limits import JOIN_UP_TO

LARGE = bytes(JOIN_UP_TO + 1)


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([b"a"], [b"a"]),
        ([b"a", b"b", b""], [b"ab"]),
        ([bytes(JOIN_UP_TO)] * 2, [bytes(2 * JOIN_UP_TO)]),
        ([b"a", b"b", LARGE, b"c", b"d"], [b"ab", LARGE, b"cd"]),
        ([LARGE, LARGE, b"a"], [LARGE, LARGE, b"a"]),
    ],
)
def test_small_pieces_are_joined_and_large_ones_left_alone(pieces, expected):
    assert joined(pieces) == expected


class Connection:
    def __init__(self):
        self.flushed = 0

    def flush(self):
        self.flushed += 1


def test_whoever_begins_ends():
    connection = Connection()
    assert gathering.begin()
    assert not gathering.begin(), "within a delivery another one only adds to it"
    gathering.connections.append(connection)
    assert connection.flushed == 0
    gathering.end()
    assert connection.flushed == 1
    assert gathering.connections is None


def test_another_threads_loop_gathers_by_itself():
    seen = []
    assert gathering.begin()
    try:
        thread = threading.Thread(target=lambda: seen.append(gathering.connections))
        thread.start()
        thread.join()
    finally:
        gathering.end()
    assert seen == [None]
