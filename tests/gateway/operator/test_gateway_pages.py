"""partway.gateway.operator.gateway_pages: a page comes, or the reason why none does."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from partway.gateway.cluster.endpoint_slices import ServiceInstance
from partway.gateway.operator import gateway_pages
from partway.gateway.operator.gateway_pages import GatewayPages, GatewayRefuses, GatewaySilent
from partway.gateway.operator.limits import STREAMS_TIMEOUT
from tests.gateway.fleet.waiting import eventually, soon
from tests.gateway.operator.test_open_streams import page_of
from tests.gateway.streams.fakes import FakeClock


class Answering:
    """A gateway's port, with an answer that a test sets."""

    def __init__(self) -> None:
        self.answer: dict[str, Any] = {"body": page_of()}
        self.clock = FakeClock()
        self.asked: list[str] = []
        self.is_silent = False

    async def start(self) -> None:
        self.pages = GatewayPages(self.clock)
        application = web.Application()
        application.router.add_get("/{any:.*}", self._answer)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port = self._runner.addresses[0][1]

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        if self.is_silent:
            await asyncio.Event().wait()
        return web.Response(**self.answer)

    def gateway(self, port: int = 0) -> ServiceInstance:
        return ServiceInstance("key", "g", "127.0.0.1", port or self.port)

    async def aclose(self) -> None:
        await self.pages.aclose()
        await self._runner.cleanup()


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
