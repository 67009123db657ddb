"""Resources: what is said of them is what is written down."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.apis.control.limits import CHANGE_WAIT_TIMEOUT
from partway.gateway.apis.control.resources import Resource, Resources
from partway.gateway.storage.store.memory import MemoryStore
from partway.gateway.storage.store.store import Record, StoreError
from tests.gateway.streams.fakes import FakeClock
from tests.wire.peers import eventually

MODEL = Resource("model", "Echo", 1.5, 2.5, {"ModelName": "Echo"}, {"team": "a"}, {"x": [1]})


async def resources_of(store):
    resources = Resources(store, FakeClock())
    await resources.load()
    return resources


async def test_what_was_put_is_found_whatever_its_case_and_by_the_next_process():
    store = MemoryStore()
    resources = await resources_of(store)
    async with resources.changing():
        await resources.put(MODEL)
    assert resources.find("model", "eCHO") == MODEL
    assert resources.find("endpoint", "Echo") is None
    again = await resources_of(store)
    assert list(again.all("model")) == [MODEL]


async def test_what_was_deleted_is_gone_for_the_next_process_too():
    store = MemoryStore()
    resources = await resources_of(store)
    async with resources.changing():
        await resources.put(MODEL)
        await resources.delete(MODEL)
    assert list(resources.all("model")) == []
    assert list((await resources_of(store)).all("model")) == []


async def test_what_cannot_be_written_down_is_not_said_either(monkeypatch):
    store = MemoryStore()
    resources = await resources_of(store)
    async with resources.changing():
        await resources.put(MODEL)

        async def full(*_):
            raise StoreError("the disk is full")

        monkeypatch.setattr(store, "write", full)
        with pytest.raises(StoreError):
            await resources.put(Resource("model", "other", 1.0, 1.0))
        with pytest.raises(StoreError):
            await resources.delete(MODEL)
    assert list(resources.all("model")) == [MODEL]


async def test_a_change_waits_for_those_before_it_for_so_long():
    clock = FakeClock()
    resources = Resources(MemoryStore(), clock)

    async def change():
        async with resources.changing():
            await resources.put(MODEL)

    async with resources.changing():
        later = asyncio.create_task(change())
        await eventually(lambda: bool(clock.armed))
        clock.advance(CHANGE_WAIT_TIMEOUT)
        with pytest.raises(StoreError, match="have not been stored within 30 s"):
            await later
    await change()
    assert list(resources.all("model")) == [MODEL]


async def test_what_a_newer_version_has_written_is_said_and_stays_as_it_is():
    store = MemoryStore()
    body = {"created": 1.0, "modified": 1.0, "members": {}, "shared": True, "owner": "a"}
    record = Record("endpoint", "chat", body)
    await store.write(record)
    said = r"the endpoint 'chat' in the store has .* \(owner, shared\); a newer version has"
    with pytest.raises(StoreError, match=said):
        await resources_of(store)
    assert list(await store.records("endpoint")) == [record]
