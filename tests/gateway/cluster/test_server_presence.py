"""partway.gateway.cluster.server_presence: what it says of a server that goes and comes back."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from partway.gateway.cluster import server_presence
from partway.gateway.cluster.server_presence import ServerPresence
from tests.gateway.cluster.fake_api_server import failure
from tests.gateway.fleet.waiting import eventually

#: Shorter than a request's limit, so that no request's clock is taken for it.
LOOK = 5.0


class Looks:
    def __init__(self, client, clock) -> None:
        self.clock = clock
        self.presence = ServerPresence(client, clock)
        self.presence.start()

    async def next(self) -> str:
        """Let one look pass; return the trouble after it."""
        (timer,) = await self._waits()
        self.clock.advance_to(timer.due)
        await self._waits()
        return self.presence.trouble

    async def _waits(self):
        await eventually(lambda: [each.due - self.clock.now for each in self.clock.armed] == [LOOK])
        return self.clock.armed


@pytest.fixture
async def looks(client, clock, monkeypatch) -> AsyncIterator[Looks]:
    monkeypatch.setattr(server_presence, "SERVER_LOOK", LOOK)
    looks = Looks(client, clock)
    yield looks
    await looks.presence.aclose()


async def test_a_loss_and_a_return_are_logged_once(looks, server, caplog):
    caplog.set_level(logging.INFO, "partway.cluster")
    assert await looks.next() == ""
    server.fault = lambda asked: failure(504, "Timeout", "it is late")
    assert "it is late" in await looks.next()
    assert "it is late" in await looks.next()
    server.fault = lambda asked: failure(403, "Forbidden")  # an answer
    assert await looks.next() == ""
    assert await looks.next() == ""
    assert [each.levelname for each in caplog.records] == ["WARNING", "INFO"]
    assert caplog.messages[1] == "the API server answers again"


async def test_after_an_unforeseen_error_it_looks_again(looks, server, client, caplog, monkeypatch):
    async def odd(group: str) -> tuple[str, ...]:
        raise RuntimeError("odd")

    server.fault = lambda asked: failure(504, "Timeout", "it is late")
    assert "it is late" in await looks.next()
    with monkeypatch.context() as for_now:
        for_now.setattr(client, "versions", odd)
        assert "it is late" in await looks.next()
    assert "RuntimeError: odd" in caplog.text
    server.fault = lambda asked: None
    assert await looks.next() == ""
