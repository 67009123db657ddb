"""Admission of replies to the engine, as the cache has room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partway.container.models.text.admission import ReplyAdmission

ROOM, SLOTS = 10, 4


def admit_all(admission: ReplyAdmission[int]) -> list[int]:
    admitted = []
    while (reply := admission.next()) is not None:
        admitted.append(reply)
    return admitted


def waiting(*rooms: int, slots: int = SLOTS) -> ReplyAdmission[int]:
    admission = ReplyAdmission[int](ROOM, slots)
    for reply, room in enumerate(rooms):
        admission.wait(reply, room)
    return admission


def test_as_many_as_fit():
    admission = waiting(4, 6, 1)
    assert admit_all(admission) == [0, 1]
    assert (admission.admitted, admission.usage) == ([0, 1], 1.0)
    admission.leave(0)
    assert admit_all(admission) == [2]
    assert admission.usage == 0.7


def test_a_small_one_does_not_overtake():
    admission = waiting(6, 6, 1)
    assert admit_all(admission) == [0]
    admission.leave(1)
    assert admit_all(admission) == [2]


def test_no_more_than_a_step_can_hold():
    admission = waiting(1, 1, 1, slots=2)
    assert admit_all(admission) == [0, 1]
    admission.leave(1)
    assert admit_all(admission) == [2]


def test_one_that_is_larger_than_the_cache_does_not_wait_for_ever():
    admission = waiting(1, ROOM + 1, 1)
    assert admit_all(admission) == [0]
    admission.leave(0)
    assert admit_all(admission) == [1]


def test_one_that_is_unknown_may_leave():
    admission = waiting(1)
    admission.leave(7)
    assert admit_all(admission) == [0]


@given(st.lists(st.one_of(st.integers(1, ROOM), st.integers(-30, -1)), max_size=60))
def test_all_are_served_in_order_and_the_cache_is_never_overcommitted(steps: list[int]):
    """A positive number comes and asks for as much room; a negative one makes one leave."""
    admission = ReplyAdmission[int](ROOM, SLOTS)
    rooms: dict[int, int] = {}
    served: list[int] = []
    for number, step in enumerate(steps):
        if step > 0:
            rooms[number] = step
            admission.wait(number, step)
        elif rooms:
            leaving = sorted(rooms)[step % len(rooms)]
            del rooms[leaving]
            admission.leave(leaving)
        served += admit_all(admission)
        assert sum(rooms[reply] for reply in admission.admitted) <= ROOM
        assert len(admission.admitted) <= SLOTS
    while rooms:
        assert admission.admitted, "one waits and none is served"
        done = admission.admitted[0]
        del rooms[done]
        admission.leave(done)
        served += admit_all(admission)
    assert served == sorted(served)
