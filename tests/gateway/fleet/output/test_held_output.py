"""partway.gateway.fleet.output.held_output: nothing is lost before there is a receiver."""

from __future__ import annotations

from partway.gateway.fleet.limits import OUTPUT_WAITING_BYTES
from partway.gateway.fleet.output.held_output import HeldOutput


def test_all_comes_in_order():
    held, received = HeldOutput(), []
    held.feed(b"one ")
    held.feed(b"two ")
    held.pass_to(received.append)
    held.feed(b"three")
    assert b"".join(received) == b"one two three"


def test_more_than_the_bound_is_left_out_and_counted():
    held, received = HeldOutput(), []
    held.feed(b"x" * (OUTPUT_WAITING_BYTES + 5))
    held.feed(b"late")
    held.pass_to(received.append)
    held.feed(b"after")
    assert received[0] == b"x" * OUTPUT_WAITING_BYTES
    assert b"[partway: 9 bytes of output were left out here" in received[1]
    assert received[2:] == [b"after"]


def test_nothing_held_is_nothing_passed():
    held, received = HeldOutput(), []
    held.pass_to(received.append)
    assert received == []
