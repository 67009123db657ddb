from __future__ import annotations

import threading

from partway.protocol.gathering import gathering


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
