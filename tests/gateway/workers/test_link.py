"""partway.gateway.workers.link: messages one behind the other, and each way to break."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from partway.gateway.workers import link as module
from partway.gateway.workers.link import LinkBroken, MessageTooLong, WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    TO_WORKER,
    Applied,
    CutInstance,
    Drained,
    InstanceIdle,
    WorkerMetrics,
    encoded,
)


@pytest.fixture
async def pair(anyio_backend):
    ours, theirs = socket.socketpair()
    parent, worker = (
        await WorkerLink.over(ours, TO_PARENT),
        await WorkerLink.over(theirs, TO_WORKER),
    )
    yield parent, worker
    parent.abort()
    worker.abort()


async def test_messages_come_in_order_until_the_end(pair):
    parent, worker = pair
    sent = [Applied(number) for number in range(50)] + [
        WorkerMetrics(1, "x" * 500_000),
        Drained(True),
    ]
    for each in sent:
        worker.send(each)
    closing = asyncio.create_task(worker.aclose())
    assert [each async for each in parent.messages()] == sent
    await closing


async def test_both_sides_send(pair):
    parent, worker = pair
    parent.send(CutInstance("i"))
    worker.send(InstanceIdle("j"))
    assert await anext(worker.messages()) == CutInstance("i")
    assert await anext(parent.messages()) == InstanceIdle("j")


async def test_nothing_is_sent_after_the_other_side_has_ended(pair):
    parent, worker = pair
    parent.abort()
    assert [each async for each in worker.messages()] == []
    worker.abort()
    worker.send(InstanceIdle("i"))


async def test_a_side_that_takes_nothing_ends_the_link(pair, monkeypatch):
    monkeypatch.setattr(module, "MAX_UNSENT", 1_000_000)
    parent, _ = pair

    def send_much() -> None:
        for _ in range(100):
            parent.send(CutInstance("i" * 100_000))

    with pytest.raises(LinkBroken, match="1000000 bytes of messages are unsent"):
        send_much()


async def test_a_message_that_is_too_long_is_not_sent(pair, monkeypatch):
    """The link takes the next one."""
    monkeypatch.setattr(module, "MAX_MESSAGE", 100)
    parent, worker = pair
    with pytest.raises(MessageTooLong, match="a CutInstance has"):
        parent.send(CutInstance("i" * 100))
    parent.send(CutInstance("i"))
    assert await anext(worker.messages()) == CutInstance("i")


async def test_what_comes_is_dropped_until_the_other_side_ends(pair):
    parent, worker = pair
    for _ in range(10):
        worker.send(InstanceIdle("i" * 100_000))
    waiting = asyncio.create_task(parent.other_side_ends(60))
    await worker.room()
    assert not waiting.done()
    await worker.aclose()
    await waiting


async def test_it_is_dropped_for_a_time(pair):
    parent, _ = pair
    await parent.other_side_ends(0)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (struct.pack(">I", module.MAX_MESSAGE + 1), "a message has 16777217 bytes, more than"),
        (struct.pack(">I", 1) + b"\xc1", "a message cannot be read"),
    ],
)
async def test_something_else_than_messages_breaks_it(anyio_backend, data, says):
    ours, theirs = socket.socketpair()
    parent = await WorkerLink.over(ours, TO_PARENT)
    with theirs:
        good = encoded(Applied(1))
        theirs.sendall(struct.pack(">I", len(good)) + good + data)
        messages = parent.messages()
        assert await anext(messages) == Applied(1)
        with pytest.raises(LinkBroken, match=says):
            await anext(messages)
    parent.abort()
