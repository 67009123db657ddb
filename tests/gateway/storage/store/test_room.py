"""storage.store.room: how much finds room, beside what each store's tests ask of it."""

from __future__ import annotations

import pytest

from partway.gateway.storage.store.room import Room, RoomLimits, Written, record_of, written
from partway.gateway.storage.store.store import Record, Removal, StoreError


def test_records_are_written_in_ascii_and_had_again():
    (made, gone) = written((Record("model", "ä", {"é": ["\ud800", 1.5]}), Removal("model", "b")))
    assert made == Written("model", "ä", '{"\\u00e9": ["\\ud800", 1.5]}')
    assert record_of(made) == Record("model", "ä", {"é": ["\ud800", 1.5]})
    assert gone == Written("model", "b", None)
    assert (made.size, gone.size) == (27, 0)


def test_of_changes_of_one_name_the_last_one_counts():
    room = Room(RoomLimits(record=10, records=1, stored=10))
    large, small = Written("model", "a", "x" * 11), Written("model", "a", "x" * 10)
    room.check((large, small))
    room.note((large, small))
    with pytest.raises(StoreError, match="more than 1 objects of kind model"):
        room.check((Written("model", "b", ""),))
    room.check((Written("model", "a", None), Written("model", "b", "x" * 10)))


def test_what_has_become_too_much_by_other_limits_may_become_less():
    room = Room(RoomLimits(record=10, records=1, stored=10))
    room.note(Written("model", name, "x" * 10) for name in "abc")
    room.check((Written("model", "a", None),))
    room.check((Written("model", "a", "x" * 9),))
    with pytest.raises(StoreError, match="more than 10 bytes; delete something first"):
        room.check((Written("job", "a", "x"),))
