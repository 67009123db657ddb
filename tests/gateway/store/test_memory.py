"""The store in memory."""

from __future__ import annotations

from partway.gateway.store.memory import MemoryStore
from partway.gateway.store.store import Record, Removal


async def test_records_are_had_again_in_the_order_of_their_names():
    store = MemoryStore()
    await store.write(Record("model", "b", {"a": [1]}), Record("model", "a"), Record("job", "c"))
    assert await store.records("model") == (
        Record("model", "a", {}),
        Record("model", "b", {"a": [1]}),
    )


async def test_what_is_kept_is_not_changed_by_who_gave_it_or_had_it():
    store, body = MemoryStore(), {"a": [1]}
    await store.write(Record("model", "a", body))
    body["a"].append(2)
    (found,) = await store.records("model")
    found.body["a"].append(3)
    assert await store.records("model") == (Record("model", "a", {"a": [1]}),)


async def test_what_is_removed_is_there_no_more_and_may_have_been_absent():
    store = MemoryStore()
    await store.write(Record("model", "a"), Removal("model", "b"))
    await store.write(Removal("model", "a"))
    assert await store.records("model") == ()


async def test_after_its_end_nothing_is_left():
    store = MemoryStore()
    await store.write(Record("model", "a"))
    await store.aclose()
    assert await store.records("model") == ()
