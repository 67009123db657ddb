"""partway.gateway.operator.gateway_pages: a page comes, or the reason why none does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from partway.gateway.operator import gateway_pages
from partway.gateway.operator.gateway_pages import GatewayRefuses, GatewaySilent
from partway.gateway.operator.limits import STREAMS_TIMEOUT
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.a_gateway import Answering, page_of


@pytest.fixture
async def answering(anyio_backend: object, no_leaks: None) -> AsyncIterator[Answering]:
    answering = Answering()
    await answering.start()
    yield answering
    await answering.aclose()


async def test_a_page(answering):
    assert (await answering.pages.read(answering.gateway())).total == 0
    assert answering.asked == ["/metrics"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 503}, "the status is 503; it must be 200"),
        ({"status": 302, "headers": {"Location": "/other"}}, "the status is 302"),
        ({"text": "hello"}, "the page has no partway_instance_outstanding"),
        ({"body": page_of() + bytes(10_000)}, "the page has more than 9000 bytes"),
    ],
    ids=["an error", "a redirect", "another page", "a long page"],
)
async def test_another_answer(answering, monkeypatch, answer, words):
    monkeypatch.setattr(gateway_pages, "MAX_PAGE", 9000)
    answering.answer = answer
    with pytest.raises(GatewaySilent, match=words):
        await answering.pages.read(answering.gateway())
    assert answering.asked == ["/metrics"], "no redirect is followed"


async def test_no_answer_in_time(answering):
    answering.is_silent = True
    reading = asyncio.create_task(answering.pages.read(answering.gateway()))
    await eventually(lambda: answering.asked)
    answering.clock.advance(STREAMS_TIMEOUT)
    with pytest.raises(GatewaySilent, match="there was no answer within 5 s"):
        await soon(reading)


async def test_no_process(answering):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        port = taken.getsockname()[1]
        with pytest.raises(GatewayRefuses, match=f"^http://127.0.0.1:{port}/metrics: Connection"):
            await answering.pages.read(answering.gateway(port))
