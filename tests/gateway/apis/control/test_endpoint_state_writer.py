"""gateway.apis.control.endpoint_state_writer: a state is written, however often it is tried."""

from __future__ import annotations

import pytest

from partway.gateway.apis.control.endpoint_state_writer import Notes
from partway.gateway.apis.control.limits import STORE_RETRY_INTERVAL
from partway.gateway.storage.store.store import StoreError
from tests.gateway.fleet.fakes import turns
from tests.gateway.streams.fakes import FakeClock


class Written:
    """What was written, by a store that may be full, and a fault for one name."""

    def __init__(self):
        self.names = []
        self.full = False
        self.clock = FakeClock()
        self.notes = Notes(self.write, self.clock)

    async def write(self, name):
        if self.full:
            raise StoreError("the disk is full")
        if name == "faulty":
            raise ZeroDivisionError
        self.names.append(name)


@pytest.fixture
async def written():
    written = Written()
    yield written
    await written.notes.aclose()


async def test_each_is_written_once_in_the_order_of_names(written):
    for name in ("b", "a", "b"):
        written.notes.add(name)
    await turns()
    assert written.names == []
    written.notes.start()
    await turns()
    assert written.names == ["a", "b"]


async def test_a_full_store_is_tried_again(written, caplog):
    written.full = True
    written.notes.start()
    for name in ("a", "b"):
        written.notes.add(name)
    await turns()
    assert len(written.clock.armed) == 1
    assert "an endpoint's state cannot be stored; trying again endpoint=b" in caplog.text
    written.full = False
    written.clock.advance(STORE_RETRY_INTERVAL)
    await turns()
    assert written.names == ["a", "b"]


async def test_a_fault_is_not_the_end_of_all_notes(written, caplog):
    written.notes.start()
    for name in ("faulty", "fine"):
        written.notes.add(name)
    await turns()
    assert written.names == ["fine"]
    assert "an endpoint's state could not be recorded endpoint=faulty" in caplog.text


async def test_nothing_is_tried_again_after_the_end(written):
    written.full = True
    written.notes.start()
    written.notes.add("a")
    await turns()
    await written.notes.aclose()
    assert written.clock.armed == []


async def test_the_end_of_what_has_not_begun():
    await Notes(Written().write, FakeClock()).aclose()
