from __future__ import annotations

import threading

from partway.protocol.connections.batched_writes import batched_writes


class Connection:
    def __init__(self):
        self.flushed = 0

    def flush(self):
        self.flushed += 1


def test_whoever_begins_ends():
    connection = Connection()
    assert batched_writes.begin()
    assert not batched_writes.begin(), "within a delivery another one only adds to it"
    batched_writes.connections.append(connection)
    assert connection.flushed == 0
    batched_writes.end()
    assert connection.flushed == 1
    assert batched_writes.connections is None


def test_another_threads_loop_gathers_by_itself():
    seen = []
    assert batched_writes.begin()
    try:
        thread = threading.Thread(target=lambda: seen.append(batched_writes.connections))
        thread.start()
        thread.join()
    finally:
        batched_writes.end()
    assert seen == [None]
