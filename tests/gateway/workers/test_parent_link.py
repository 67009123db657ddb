"""partway.gateway.workers.parent_link: messages and requests between two parents."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace

import pytest

from partway.gateway.timing.clock import LoopClock
from partway.gateway.workers.limits import HANDOVER_TIMEOUT
from partway.gateway.workers.link import WorkerLink
from partway.gateway.workers.messages import (
    TO_PARENT,
    TO_WORKER,
    Applied,
    HoldRequests,
    UseSignature,
    Welcome,
    WorkerCheck,
    WorkerChecked,
    WorkerHello,
    WorkerMetrics,
)
from partway.gateway.workers.parent_link import ParentLink, ParentUnavailable
from tests.gateway.workers.test_worker import FROM_WORKER


class Scene:
    def __init__(self, parent: WorkerLink, clock: LoopClock, link: ParentLink) -> None:
        self.parent = parent
        self.clock = clock
        self.link = link
        self.orders = asyncio.Queue()

    async def follow(self) -> None:
        async for each in self.link.messages():
            self.orders.put_nowait(each)

    @property
    def is_up(self) -> bool:
        try:
            self.link.check_up()
        except ParentUnavailable:
            return False
        return True


@pytest.fixture
async def scene(anyio_backend, tmp_path):
    ours, theirs = socket.socketpair()
    parent = await WorkerLink.over(ours, TO_PARENT)
    first = await WorkerLink.over(theirs, TO_WORKER)
    clock = LoopClock()
    scene = Scene(parent, clock, ParentLink(first, str(tmp_path / "parent"), 3, clock))
    yield scene
    scene.parent.abort()
    scene.link.close()
    await asyncio.sleep(0)


async def test_between_two_parents_it_is_down(scene):
    assert scene.is_up
    scene.parent.abort()
    await scene.follow()
    assert not scene.is_up
    scene.link.send(UseSignature(1, "a", 2.0))  # dropped


async def test_a_parent_that_hands_over_leaves_requests_to_the_next(scene, tmp_path):
    scene.parent.send(HoldRequests())
    await scene.parent.aclose()
    await scene.follow()
    assert scene.is_up
    scene.link.send(UseSignature(1, "a", 2.0))
    dialled = asyncio.Queue()
    server = await asyncio.start_unix_server(
        lambda *both: dialled.put_nowait(WorkerLink(*both, FROM_WORKER)), tmp_path / "parent"
    )
    await scene.link.redial()
    scene.parent = await dialled.get()
    messages = scene.parent.messages()
    assert await anext(messages) == WorkerHello(3)
    following = asyncio.create_task(scene.follow())
    scene.parent.send(Welcome())
    assert await scene.orders.get() == Welcome()
    assert await anext(messages) == UseSignature(1, "a", 2.0)
    assert scene.is_up
    scene.parent.abort()
    await following
    assert not scene.is_up, "this one has not handed over"
    server.close()


@pytest.mark.parametrize("answer", [Applied(7), WorkerChecked(), WorkerMetrics(7, "")])
async def test_an_answer_is_for_the_parent_that_has_asked(scene, answer):
    scene.parent.send(HoldRequests())
    scene.parent.send(WorkerCheck())
    following = asyncio.create_task(scene.follow())
    assert await scene.orders.get() == WorkerCheck()
    scene.link.send(UseSignature(1, "a", 2.0))  # for the next one
    scene.link.send(answer)
    scene.link.close()
    assert [each async for each in scene.parent.messages()] == [answer]
    await following


async def test_a_next_parent_that_does_not_come_is_not_waited_for(scene, monkeypatch):
    timers = []
    monkeypatch.setattr(
        scene.clock,
        "call_later",
        lambda seconds, act: timers.append((seconds, act)) or SimpleNamespace(cancel=lambda: None),
    )
    scene.parent.send(HoldRequests())
    await scene.parent.aclose()
    await scene.follow()
    ((seconds, give_up),) = timers
    assert seconds == HANDOVER_TIMEOUT
    give_up()
    assert not scene.is_up
