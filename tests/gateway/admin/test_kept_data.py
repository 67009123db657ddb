"""partway.gateway.admin.kept_data: the store, and what stays in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.admin.kept_data import opened_store
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.store.sqlite import SqliteStore
from partway.gateway.storage.store.store import Record
from partway.gateway.timing.clock import LoopClock

WITHOUT_CONTROL = Settings(apis=frozenset({"runtime", "logs"}))


async def test_endpoints_stay_in_the_store_while_control_is_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DataDirectory.opened(tmp_path) as data:
        async with opened_store(data, Settings()) as store:
            await store.open_for_writing()
            await store.write(Record("endpoint", "chat", {"a": 1}), Record("model", "m", {}))
        assert caplog.messages == []
        async with opened_store(data, WITHOUT_CONTROL) as store:
            assert await store.records("endpoint") == ()
        (message,) = caplog.messages
        assert message == (
            "endpoints that were created through the API are not started: the API 'control' is "
            "switched off; they stay in the store endpoints=chat"
        )
        store = await SqliteStore.opened(data.store, LoopClock())
        assert [each.name for each in await store.records("endpoint")] == ["chat"]
        await store.aclose()


async def test_a_store_that_is_broken_stops_no_gateway_that_needs_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with DataDirectory.opened(tmp_path) as data:
        data.store.write_bytes(b"this is no database, and longer than the head of one" * 40)
        async with opened_store(data, WITHOUT_CONTROL):
            pass
    assert "the store cannot be read" in caplog.text
