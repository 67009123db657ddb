"""partway.gateway.apis.asynchronous.running_requests: what one may have of what runs."""

from __future__ import annotations

from partway.gateway.apis.asynchronous.limits import AT_ONCE, AT_ONCE_OF_ONE, FIRST_AT_ONCE
from partway.gateway.apis.asynchronous.running_requests import RunningRequests


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
