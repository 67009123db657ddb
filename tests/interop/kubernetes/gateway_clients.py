"""Clients of several gateways: streams that stay open, and short ones one after the other."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import aiohttp

from partway.gateway.client import ClientStream, PartwayError, connect
from partway.protocol.signatures.signed_request import SignableRequest
from partway.protocol.signatures.signing import sign_request
from tests.interop.kubernetes.gateways import CREDENTIALS, Gateway
from tests.interop.kubernetes.session_container import NEW_SESSION, SESSION

#: Seconds for an answer on a busy machine.
PATIENCE = 30.0


@dataclass
class Load:
    """Short streams, one after the other, through one gateway."""

    gateway: Gateway
    is_over: bool = False
    opened: int = 0
    failures: list[str] = field(default_factory=list)

    async def run(self) -> None:
        while not self.is_over:
            try:
                async with connect(self.gateway.url, "chat", credentials=CREDENTIALS) as stream:
                    await talk(stream)
                self.opened += 1
            except (PartwayError, TimeoutError) as error:
                self.failures.append(f"{datetime.now(UTC)}: {error}")
            await asyncio.sleep(0.1)


@asynccontextmanager
async def load(gateways: Iterable[Gateway]) -> AsyncIterator[list[Load]]:
    """Put load on each gateway. At the end none of it may have failed."""
    loads = [Load(each) for each in gateways]
    tasks = [asyncio.create_task(each.run()) for each in loads]
    try:
        yield loads
    finally:
        for each in loads:
            each.is_over = True
        await asyncio.gather(*tasks)
    print(f"opened under load: {[each.opened for each in loads]}")
    assert [each.failures for each in loads] == [[]] * len(loads)
    assert all(each.opened for each in loads)


async def talk(stream: ClientStream) -> None:
    """Exchange a message and its echo."""
    await stream.send_bytes(b"hello")
    assert (await asyncio.wait_for(anext(stream), PATIENCE)).payload == b"hello"


async def open_stream(up: AsyncExitStack, gateway: Gateway) -> ClientStream:
    """Open a stream that has talked; ``up`` ends it."""
    opening = connect(gateway.url, "chat", credentials=CREDENTIALS)
    stream = await up.enter_async_context(opening)
    await talk(stream)
    return stream


async def open_streams(up: AsyncExitStack, gateway: Gateway, number: int) -> list[ClientStream]:
    return [await open_stream(up, gateway) for _ in range(number)]


async def error_of(stream: ClientStream) -> PartwayError:
    """The error that ends a stream without input."""
    try:
        async with asyncio.timeout(PATIENCE):
            async for part in stream:
                raise AssertionError(f"{part} was never sent")
    except PartwayError as error:
        return error
    raise AssertionError("the stream has ended in good order")


class Session(NamedTuple):
    """A session.

    Attributes:
        pod: the name of the one that has answered.
    """

    id: str
    pod: str


async def ask_for_session(gateway: Gateway, endpoint: str, id: str) -> Session:
    """Invoke an endpoint whose container is ``session_container``."""
    path = f"/endpoints/{endpoint}/invocations"
    headers = (("host", gateway.url.partition("//")[2]), (SESSION, id))
    signed = sign_request(
        SignableRequest("POST", path, "", headers),
        CREDENTIALS,
        region="us-east-1",
        payload_hash=hashlib.sha256(b"{}").hexdigest(),
        now=time.time(),
    )
    async with aiohttp.ClientSession() as client:
        sent = dict(headers) | dict(signed.headers)
        async with client.post(gateway.url + path, data=b"{}", headers=sent) as answer:
            pod = await answer.text()
            assert answer.status == 200, pod
            new = answer.headers.get(NEW_SESSION, "").partition(";")[0]
            return Session(new or id, pod)
