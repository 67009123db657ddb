"""Legs on transports that tests feed by hand."""

from __future__ import annotations

import asyncio

import pytest

from partway.protocol.connections.prompt_acks import PromptAcks


class WithoutLoop(PromptAcks):
    """Acknowledges nothing where no loop runs: a fake transport has no socket."""

    def soon(self, connection):
        if asyncio._get_running_loop() is not None:
            super().soon(connection)


@pytest.fixture(autouse=True)
def _reads_without_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A large read is delivered at once: there is no loop in which it could wait its turn."""
    monkeypatch.setattr("partway.protocol.connections.websocket.READ_BYTES_PER_TURN", 1 << 30)
    monkeypatch.setattr("partway.protocol.connections.websocket.prompt_acks", WithoutLoop())
