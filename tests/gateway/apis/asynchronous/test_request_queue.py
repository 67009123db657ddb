"""gateway.apis.asynchronous.request_queue: shares, turns, what waits in vain, and what runs."""

from __future__ import annotations

import sys

import pytest

from partway.gateway.apis.asynchronous.limits import AT_ONCE, AT_ONCE_OF_ONE, FIRST_AT_ONCE
from partway.gateway.apis.asynchronous.request_queue import (
    RunningRequests,
    WaitingLimits,
    WaitingRequests,
)
from partway.protocol.errors import ServiceUnavailable
from tests.gateway.apis.asynchronous.a_request import a_request


def waiting(*requests, most=10, of_one=5):
    found = WaitingRequests(WaitingLimits(most, of_one))
    for each in requests:
        found.take_place(each.endpoint, each.sender)
        found.add(each)
    return found


def always(_: str) -> bool:
    return True


def always_of(*_: str) -> bool:
    return True


def test_endpoints_take_turns_and_of_one_the_first_goes():
    first = [a_request("a") for _ in range(3)]
    other = a_request("b")
    queue = waiting(*first, other)
    taken = [queue.next(0, always, always_of) for _ in range(5)]
    assert taken == [first[0], other, first[1], first[2], None]
    assert len(queue) == 0
    assert queue.places == 4  # they have not come to their end


def test_senders_of_one_endpoint_take_turns():
    of_x = [a_request(sender="x") for _ in range(3)]
    of_y = [a_request(sender="y") for _ in range(2)]
    queue = waiting(*of_x, *of_y)
    first = [queue.next(0, always, always_of) for _ in range(3)]
    assert first == [of_x[0], of_y[0], of_x[1]]
    assert queue.taken_out(lambda each: each is of_x[2]) == [of_x[2]]
    assert [queue.next(0, always, always_of) for _ in range(2)] == [of_y[1], None]


def test_a_sender_that_may_have_no_more_holds_up_no_other():
    queue = waiting(a_request(sender="x"), of_y := a_request(sender="y"))
    assert queue.next(0, always, lambda endpoint, sender: (endpoint, sender) == ("e", "y")) is of_y
    assert queue.next(0, always, lambda *_: False) is None


def test_an_endpoint_that_may_have_no_more_holds_up_no_other():
    queue = waiting(a_request("a"), b := a_request("b"))
    assert queue.next(0, lambda endpoint: endpoint == "b", always_of) is b
    assert queue.next(0, lambda endpoint: endpoint == "b", always_of) is None


def test_one_that_is_tried_again_has_its_turn_from_its_moment_on_before_later_ones():
    first, second = a_request(), a_request()
    queue = waiting(first, second)
    assert queue.next(0, always, always_of) is first
    queue.add_later(first, 7)
    assert len(queue) == 2
    assert queue.next(6.9, lambda _: False, always_of) is None
    assert queue.next(7, always, always_of) is first
    assert queue.next(7, always, always_of) is second


@pytest.mark.parametrize("waits", ["for its turn", "for its moment"])
def test_what_is_taken_out_has_no_turn_any_more(waits):
    request = a_request(expires=5.0)
    queue = waiting(request, other := a_request())
    if waits == "for its moment":
        assert queue.next(0, always, always_of) is request
        queue.add_later(request, 1)
    assert queue.taken_out(lambda each: each.expires <= 5) == [request]
    assert queue.endpoints == {"e"}
    assert queue.next(9, always, always_of) is other
    assert queue.next(9, always, always_of) is None


def test_nothing_is_kept_of_what_is_taken_out_behind_one_that_waits_on():
    request = a_request(expires=5.0)
    held = sys.getrefcount(request)
    queue = waiting(a_request(), request)
    queue.taken_out(lambda each: each.expires <= 5)
    assert len(queue) == 1
    assert sys.getrefcount(request) == held


def test_all_places_may_be_taken_and_a_share_of_them_by_one():
    queue = WaitingRequests(WaitingLimits(4, 2))
    for sender in "xy":
        queue.take_place("a", sender)
    with pytest.raises(ServiceUnavailable, match="2 requests of endpoint 'a' wait"):
        queue.take_place("a", "z")
    queue.take_place("b", "x")
    with pytest.raises(ServiceUnavailable, match=r"2 requests of 'x' wait .* one principal may"):
        queue.take_place("c", "x")
    queue.take_place("c", "")
    with pytest.raises(ServiceUnavailable, match=r"4 requests wait .* \(max_async_requests\)"):
        queue.take_place("d", "w")
    queue.leave_place("a", "x")
    queue.take_place("a", "x")


def test_one_sender_does_not_close_an_endpoint_to_others():
    queue = WaitingRequests(WaitingLimits(10, 5))
    for _ in range(3):
        queue.take_place("a", "x")
    with pytest.raises(ServiceUnavailable, match="3 requests of 'x' at endpoint 'a' wait"):
        queue.take_place("a", "x")
    queue.take_place("a", "y")
    queue.take_place("b", "x")
    queue.leave_place("a", "x")
    queue.take_place("a", "x")


def test_those_of_nobody_have_no_share():
    queue = WaitingRequests(WaitingLimits(9, 2))
    for endpoint in "abc":
        queue.take_place(endpoint, "")
    assert queue.places == 3


# --- What runs ------------------------------------------------------------------------------------


def begun(running, endpoint, sender, most=100):
    """Begin as many as may be."""
    count = 0
    while running.may_have_one_more(endpoint, most) and running.may_send_one_more(endpoint, sender):
        running.begin(endpoint, sender)
        count += 1
    return count


def test_an_endpoint_has_what_its_instances_take_and_no_more_than_half():
    running = RunningRequests()
    assert begun(running, "a", "x", 4) == 4
    assert begun(running, "b", "") == AT_ONCE_OF_ONE


def test_one_sender_has_half_however_many_endpoints_it_has():
    running = RunningRequests()
    assert begun(running, "a", "x") == AT_ONCE_OF_ONE
    assert begun(running, "b", "x") == 0
    assert begun(running, "b", "y") == AT_ONCE_OF_ONE == AT_ONCE // 2
    running.end("a", "x")
    assert running.total == AT_ONCE - 1
    assert begun(running, "b2", "x") == 1


def test_who_has_none_finds_a_place_though_others_are_silent():
    running = RunningRequests()
    assert begun(running, "a", "x") + begun(running, "b", "y") == AT_ONCE
    assert [begun(running, "c", "z"), begun(running, "d", "z"), begun(running, "d", "w")] == [
        1,
        0,
        1,
    ]
    assert [begun(running, "e", ""), begun(running, "f", ""), begun(running, "f", "")] == [1, 1, 0]
    for number in range(FIRST_AT_ONCE):
        begun(running, f"of {number}", "")
    assert running.total == AT_ONCE + FIRST_AT_ONCE
    assert begun(running, "g", "another") == 0
