"""Connections that acknowledge; what peers notice of it is in tests/wire/test_prompt_acks.py."""

from __future__ import annotations

import asyncio
import socket

import pytest

from partway.protocol.connections.prompt_acks import PromptAcks, acknowledge


class Reader:
    """A connection that counts how often it is told."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.times = 0

    def acknowledge(self) -> None:
        self.times += 1
        self.told.set()


async def test_each_connection_is_told_once():
    acks, first, second = PromptAcks(), Reader(), Reader()
    acks.soon(first)
    acks.soon(second)
    await asyncio.wait_for(second.told.wait(), 30)
    assert (first.times, second.times) == (1, 1)
    second.told.clear()
    acks.soon(second)
    await asyncio.wait_for(second.told.wait(), 30)
    assert (first.times, second.times) == (1, 2)


async def test_a_connection_that_fails_stops_no_other():
    class Failing(Reader):
        def acknowledge(self) -> None:
            raise RuntimeError("boom")

    reported: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    acks, other = PromptAcks(), Reader()
    acks.soon(Failing())
    acks.soon(other)
    await asyncio.wait_for(other.told.wait(), 30)
    (report,) = reported
    assert str(report["exception"]) == "boom"


def test_a_loop_that_has_ended_leaves_nothing_behind():
    acks, left = PromptAcks(), Reader()

    async def read(reader: Reader, *, wait: bool) -> None:
        acks.soon(reader)
        if wait:
            await asyncio.wait_for(reader.told.wait(), 30)

    asyncio.run(read(left, wait=False))
    asyncio.run(read(Reader(), wait=True))
    assert left.times == 0


class Transport(asyncio.Transport):
    def __init__(self, sock: object, *, closing: bool = False) -> None:
        super().__init__({"socket": sock})
        self._closing = closing

    def is_closing(self) -> bool:
        return self._closing


@pytest.mark.parametrize("sock", [None, "pair", "closed"])
def test_a_socket_that_has_nothing_to_acknowledge(sock):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        if sock == "closed":
            ours.close()
        acknowledge(Transport(None if sock is None else ours))


def test_a_transport_that_closes_is_left_alone():
    acknowledge(Transport(object(), closing=True))
