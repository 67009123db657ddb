"""What each store keeps to; each store's tests run it.

::

    class TestSqliteStore(StoreContract):
        async def opened(self, folder, limits=ROOM_LIMITS): ...
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partway.gateway.storage.store.limits import MAX_ATTACHMENT_BYTES
from partway.gateway.storage.store.room import ROOM_LIMITS, RoomLimits
from partway.gateway.storage.store.store import Record, Removal, Store, StoreError

KINDS = st.sampled_from(("model", "endpoint"))
NAMES = st.text(max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
CHANGES = st.lists(
    st.builds(Record, KINDS, NAMES, st.dictionaries(st.text(), JSON, max_size=3))
    | st.builds(Removal, KINDS, NAMES),
    max_size=4,
)


class StoreContract:
    async def opened(self, folder: Path, limits: RoomLimits = ROOM_LIMITS) -> Store:
        """A store that keeps what it keeps in a folder."""
        raise NotImplementedError

    @pytest.fixture
    async def store(self, tmp_path):
        store = await self.opened(tmp_path)
        yield store
        await store.aclose()

    @pytest.fixture
    async def small(self, tmp_path):
        """One that takes three records of a kind, of 20 bytes each, and 50 of all."""
        store = await self.opened(tmp_path, RoomLimits(record=20, records=3, stored=50))
        yield store
        await store.aclose()

    async def test_records_are_had_again_in_the_order_of_their_names(self, store):
        await store.write(
            Record("model", "b", {"a": [1]}), Record("model", "a"), Record("job", "c")
        )
        assert await store.records("model") == (
            Record("model", "a", {}),
            Record("model", "b", {"a": [1]}),
        )
        assert await store.records("endpoint") == ()

    async def test_what_is_kept_is_not_changed_by_who_gave_it_or_had_it(self, store):
        body = {"a": [1]}
        writing = asyncio.create_task(store.write(Record("model", "a", body)))
        await asyncio.sleep(0)  # it has been given, and is written now
        body["a"].append(2)
        await writing
        (found,) = await store.records("model")
        found.body["a"].append(3)
        assert await store.records("model") == (Record("model", "a", {"a": [1]}),)

    async def test_a_record_takes_the_place_of_one_with_its_name(self, store):
        await store.write(Record("model", "a", {"a": 1}), Record("model", "a", {"a": 2}))
        await store.write(Record("model", "a", {"a": 3}), Record("model", "A", {"a": 4}))
        assert await store.records("model") == (
            Record("model", "A", {"a": 4}),
            Record("model", "a", {"a": 3}),
        )

    async def test_what_is_removed_is_there_no_more_and_may_have_been_absent(self, store):
        await store.write(Record("model", "a"), Removal("model", "b"))
        await store.write(Removal("model", "a"))
        assert await store.records("model") == ()

    async def test_what_is_no_json_changes_nothing(self, store):
        with pytest.raises(TypeError):
            await store.write(Record("model", "a"), Record("model", "b", {"a": object()}))
        assert await store.records("model") == ()

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (
                [Record("job", "x"), Record("model", "b", {"a": "x" * 12})],
                "the model 'b' has 21 bytes; it must have at most 20",
            ),
            (
                [Record("model", name) for name in "bcd"],
                "the store would have more than 3 objects of kind model; delete some first",
            ),
            (
                [Record(kind, "x", {"a": "x" * 10}) for kind in "bcd"],
                "the store would have more than 50 bytes; delete something first",
            ),
        ],
    )
    async def test_what_finds_no_room_is_refused_as_a_whole(self, small, changes, said):
        await small.write(Record("model", "a"))
        with pytest.raises(StoreError) as refused:
            await small.write(*changes)
        assert str(refused.value) == said
        assert await small.records("model") == (Record("model", "a"),)
        for each in changes:
            if each.kind != "model":
                assert await small.records(each.kind) == ()

    async def test_what_has_gone_leaves_its_room_and_what_is_replaced_needs_none(self, small):
        await small.write(*(Record("model", name, {"a": "x" * 8}) for name in "ab"))
        await small.write(Record("model", "c"), Record("model", "a", {"b": "x" * 8}))
        await small.write(Removal("model", "b"), Record("model", "d", {"a": "x" * 8}))
        await small.write(*(Removal("model", name) for name in "acd"))
        await small.write(*(Record("job", name, {"a": "x" * 7}) for name in "abc"))
        assert len(await small.records("job")) == 3

    async def test_an_attachment_is_written_replaced_and_removed_with_its_record(self, store):
        content = bytes(range(256)) * 100
        await store.write(Record("model", "a", attachment=content), Record("job", "a"))
        assert await store.records("model") == (Record("model", "a"),)
        assert await store.attachment("model", "a") == content
        assert await store.attachment("job", "a") == b""
        await store.write(Record("model", "a", attachment=b"other"))
        assert await store.attachment("model", "a") == b"other"
        await store.write(Record("model", "a"))
        assert await store.attachment("model", "a") == b""
        await store.write(Record("model", "a", attachment=content))
        await store.write(Removal("model", "a"))
        assert await store.attachment("model", "a") == b""

    async def test_an_attachment_has_a_bound_of_its_own(self, store):
        await store.write(Record("model", "a", attachment=bytes(MAX_ATTACHMENT_BYTES)))
        with pytest.raises(StoreError) as refused:
            await store.write(Record("model", "b"), Record("model", "c", attachment=bytes(128_001)))
        assert str(refused.value) == (
            "the attachment of the model 'c' has 128001 bytes; it must have at most 128000"
        )
        assert await store.records("model") == (Record("model", "a"),)

    async def test_attachments_take_no_room_from_records(self, small):
        await small.write(*(Record("model", name, attachment=bytes(100)) for name in "abc"))
        await small.write(*(Record("job", name, {"a": "x" * 5}) for name in "abc"))

    @settings(max_examples=20, suppress_health_check=[HealthCheck.differing_executors])
    @given(st.lists(CHANGES, max_size=5))
    def test_it_is_as_a_dictionary(self, writes):
        expected = {}

        async def make() -> None:
            with tempfile.TemporaryDirectory() as folder:
                store = await self.opened(Path(folder))
                for changes in writes:
                    await store.write(*changes)
                    for each in changes:
                        expected.pop((each.kind, each.name), None)
                        if isinstance(each, Record):
                            expected[each.kind, each.name] = each
                    for kind in ("model", "endpoint"):
                        names = sorted(name for of, name in expected if of == kind)
                        found = await store.records(kind)
                        assert found == tuple(expected[kind, name] for name in names)
                await store.aclose()

        asyncio.run(make())
