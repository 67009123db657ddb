"""What is kept of what went over the wire."""

from __future__ import annotations

from partway.gateway.workbench.conformance.evidence import (
    MAX_KEPT_BYTES,
    MAX_KEPT_HEAD,
    MAX_STEPS,
    NotedExchange,
)


def test_of_bytes_the_beginning_is_kept_and_of_a_head_more():
    made = NotedExchange("a request")
    made.note("sent", "a message", b"x" * 1000)
    made.note("sent", "a request", b"h" * 500 + b"body" * 1000, head=500)
    made.note("sent", "a long one", b"h" * 5000, head=5000)
    message, request, long = made.steps
    assert (message.data, message.size) == (b"x" * MAX_KEPT_BYTES, 1000)
    assert request.data == b"h" * 500 + b"body" * (MAX_KEPT_BYTES // 4)
    assert (len(long.data), long.size) == (MAX_KEPT_HEAD + MAX_KEPT_BYTES, 5000)


def test_what_was_wrong_is_written_down_however_much_went_before():
    made = NotedExchange("a stream")
    for _ in range(MAX_STEPS + 5):
        made.note("sent", "a message")
    assert not made.failed
    made.fail("nothing came")
    assert made.failed
    assert (len(made.steps), made.left_out) == (MAX_STEPS + 1, 5)
    assert made.steps[-1].what == "nothing came"


def test_the_latest_is_when_something_last_happened():
    ticks = iter([10.0, 12.0, 15.0])
    made = NotedExchange("a stream", clock=lambda: next(ticks))
    assert made.latest == 10.0
    made.note("sent", "a message")
    made.note("received", "another")
    assert made.latest == 15.0
