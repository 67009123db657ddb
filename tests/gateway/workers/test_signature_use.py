"""partway.gateway.workers.signature_use: a signature is good once, in all processes together."""

from __future__ import annotations

import asyncio

import pytest

from partway.gateway.access import replay_protection
from partway.gateway.access.replay_protection import UsedSignatures
from partway.gateway.workers import signature_use
from partway.gateway.workers.messages import SignatureAnswer, UseSignature
from partway.gateway.workers.parent_link import ParentUnavailable
from partway.gateway.workers.signature_use import SignaturesOfParent, signature_answer
from partway.protocol.errors import InvalidSignature, ServiceUnavailable


def is_up() -> None:
    """A parent answers."""


def workers_of(used: UsedSignatures, number: int) -> list[SignaturesOfParent]:
    """Workers of a parent that answers at once."""
    made: list[SignaturesOfParent] = []
    for each in range(number):
        made.append(
            SignaturesOfParent(
                lambda asked, each=each: made[each].answered(signature_answer(used, asked, 0)),
                is_up,
            )
        )
    return made


async def test_a_signature_is_good_in_one_worker_alone(anyio_backend):
    used = UsedSignatures()
    one, other = workers_of(used, 2)
    await one.use("a", 100)
    await other.use("b", 100)
    for each in (one, other):
        with pytest.raises(InvalidSignature, match="this signature has been used"):
            await each.use("a", 100)
    with pytest.raises(InvalidSignature):
        used.use("b", 100, 0)  # in the parent


async def test_a_full_memory_refuses(anyio_backend, monkeypatch):
    monkeypatch.setattr(replay_protection, "MAX_USED_SIGNATURES", 1)
    (worker,) = workers_of(UsedSignatures(), 1)
    await worker.use("a", 100)
    with pytest.raises(ServiceUnavailable, match="1 requests with once in their query"):
        await worker.use("b", 100)


async def test_a_silent_parent_refuses(anyio_backend, monkeypatch):
    monkeypatch.setattr(signature_use, "FORWARD_TIMEOUT", 0)
    worker = SignaturesOfParent(lambda _: None, is_up)
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        await worker.use("a", 100)
    worker.answered(SignatureAnswer(1))  # late


async def test_without_a_parent_it_refuses_at_once(anyio_backend):
    def is_down() -> None:
        raise ParentUnavailable("restarted")

    with pytest.raises(ParentUnavailable) as refused:
        await SignaturesOfParent(print, is_down).use("a", 100)
    assert refused.value.headers["Retry-After"] == "1"


async def test_several_wait_side_by_side(anyio_backend):
    asked: asyncio.Queue[UseSignature] = asyncio.Queue()
    worker = SignaturesOfParent(asked.put_nowait, is_up)
    async with asyncio.TaskGroup() as group:
        group.create_task(worker.use("a", 100))
        group.create_task(worker.use("b", 100))
        for each in (await asked.get(), await asked.get())[::-1]:
            worker.answered(SignatureAnswer(each.number))
