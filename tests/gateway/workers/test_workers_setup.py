"""partway.gateway.workers.workers_setup: what upgrades that have failed leave to be read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from partway.gateway.settings.settings import Settings
from partway.gateway.workers import workers_setup as module
from partway.gateway.workers.supervision import Supervision
from partway.gateway.workers.supervisor_packets import packet_pair
from partway.gateway.workers.upgrade_notes import noted
from partway.gateway.workers.workers_setup import WorkersSetup


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Callable[..., WorkersSetup]]:
    """Makes the means of one gateway process after the other, all of one supervisor."""
    made = []

    def next_one(**members: object) -> WorkersSetup:
        (control, _), (news, _) = pairs = packet_pair(), packet_pair()
        supervision = Supervision(control, news, {}, is_first=not made, **members)
        setup = WorkersSetup(2, supervision)
        data = setup.data_directory(Settings(data_dir=tmp_path), [])
        assert data is not None
        data.close()
        made.append((setup, pairs))
        return setup

    yield next_one
    for setup, pairs in made:
        os.close(setup._rows.memory)
        for each in pairs:
            for end in each:
                end.close()


def test_a_refusal_outlives_the_gateway_process(setup, tmp_path):
    first = setup()
    first.opened()
    first._note("wrong")
    setup().opened()
    (found,) = {noted(tmp_path)}
    assert (found.refusals, found.reason) == (1, "wrong")


def test_a_handover_in_vain_is_noted_by_the_next_gateway_process(setup, tmp_path):
    setup().opened()
    setup(upgrade_failure="no such file").opened()
    assert (noted(tmp_path).refusals, noted(tmp_path).reason) == (1, "no such file")
    setup(generation=1).opened()
    assert (noted(tmp_path).refusals, noted(tmp_path).reason) == (0, "")


async def test_an_upgrade_is_noted_once_the_admin_socket_is_open(
    anyio_backend, setup, tmp_path, monkeypatch
):
    async def start_behind(*_: object, **__: object) -> None:
        """Be there at once."""

    front = SimpleNamespace(listening="an address", release_absent=lambda: None)
    monkeypatch.setattr(module, "WorkersFront", lambda *_: front)
    made = setup()
    gateway = SimpleNamespace(start_behind=start_behind)
    assert await made.start(gateway, asyncio.Event()) == "an address"
    assert noted(tmp_path) is None
    made.opened()
    assert noted(tmp_path).generation == 0


async def test_a_handover_that_fails_is_noted(anyio_backend, setup, tmp_path, monkeypatch):
    ended = []
    monkeypatch.setattr(os, "_exit", ended.append)

    async def fail() -> None:
        raise OSError("a disk")

    await setup()._hand_over(SimpleNamespace(hand_over=fail))
    assert ended == [1]
    assert noted(tmp_path).reason.startswith("the handover has failed: a disk")
