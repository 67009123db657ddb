"""partway.gateway.discovery.instance_room: who has room, and who gets what others leave."""

from __future__ import annotations

import pytest

from partway.gateway.discovery import instance_room
from partway.gateway.discovery.instance_room import InstanceRoom
from partway.gateway.fleet.discovered.source import FoundInstance, FoundInstances
from partway.gateway.network.dialling import Address


class Follower:
    def __init__(self, room: InstanceRoom) -> None:
        self.room = room
        self.had: set[str] = set()
        self.looks = 0

    def look_soon(self) -> None:
        self.looks += 1

    def find(
        self, *keys: str, trouble: str = "", leaving: str = "", unready: str = ""
    ) -> FoundInstances:
        instances = (
            FoundInstance(
                *(key, key, Address("10.0.0.1", 8080)),
                is_ready=key not in unready,
                is_leaving=key in leaving,
            )
            for key in keys
        )
        found = self.room.fitted(self, FoundInstances(tuple(instances), trouble), self.had)
        self.had = {each.key for each in found.instances}
        return found


@pytest.fixture
def room(monkeypatch) -> InstanceRoom:
    monkeypatch.setattr(instance_room, "MAX_DISCOVERED", 3)
    return InstanceRoom()


def test_what_there_is_no_room_for_is_left_out_by_number(room):
    first, second = Follower(room), Follower(room)
    assert first.find("a", "b").trouble == ""
    found = second.find("c", "d", trouble="and a slice is wrong")
    assert [each.key for each in found.instances] == ["c"]
    assert found.trouble == (
        "and a slice is wrong; 1 of 2 instances are left out: a gateway follows at most 3"
    )


def test_who_had_room_keeps_it(room):
    first = Follower(room)
    first.find("m", "n")
    first.find("a", "b", "m", "n")
    assert first.had == {"a", "m", "n"}
    first.find("b", "m", "n")
    assert first.had == {"b", "m", "n"}


def test_who_takes_streams_comes_first(room):
    first = Follower(room)
    first.find("a", "b", "c")
    first.find("a", "b", "c", "d", "e", leaving="a", unready="b")
    assert first.had == {"c", "d", "e"}
    first.find("a", "b", "c", "d", leaving="a", unready="b")
    assert first.had == {"a", "c", "d"}


@pytest.mark.parametrize("leaves", [True, False])
def test_room_that_is_left_goes_to_those_that_lack_it(room, leaves):
    first, second, third = Follower(room), Follower(room), Follower(room)
    first.find("a", "b")
    second.find("c", "d")
    third.find()
    assert second.looks == 0
    if leaves:
        room.leave(first)
    else:
        first.find("a")
    assert (first.looks, second.looks, third.looks) == (0, 1, 0)
    assert second.find("c", "d").trouble == ""
    first.find()
    assert second.looks == 1
