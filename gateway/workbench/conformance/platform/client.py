"""The client that drives the platform over its public surface, with every wait bounded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal

import msgpack

from partway.gateway.client import (
    ClientStream,
    CompletionState,
    DataType,
    ModelStreamFailed,
    PartwayError,
    PayloadPart,
    PlatformStreamFailed,
)
from partway.gateway.client.request import StreamRequest
from partway.gateway.network.dialling import Unreachable, dial
from partway.gateway.workbench.conformance.evidence import NotedExchange, shown
from partway.gateway.workbench.conformance.raw_stream import frame_bytes
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeRefused

_SUBPROTOCOL: Final = "payloadpart.v1.msgpack"

TEXT: Final = DataType.UTF8
BINARY: Final = DataType.BINARY
PARTIAL: Final = CompletionState.PARTIAL
COMPLETE: Final = CompletionState.COMPLETE


@dataclass(frozen=True, slots=True)
class End:
    """The end of a stream for its client.

    Attributes:
        kind: cleanly, by the model's error, by the platform's, or without an event.
        code: the code of the model's error: a close code in decimal.
    """

    kind: Literal["clean", "model", "platform", "lost"]
    code: str = ""
    message: str = ""

    def __str__(self) -> str:
        match self.kind:
            case "clean":
                return "a clean end"
            case "model":
                return f"ModelStreamError {self.code} {self.message!r}"
            case "platform":
                return f"InternalStreamFailure {self.message!r}"
            case "lost":
                return f"no event, but {self.message}"


class Client:
    """One stream's client; an answer that is due must come within ``patience`` seconds."""

    def __init__(self, stream: ClientStream, exchange: NotedExchange, patience: float) -> None:
        self.request_id = stream.request_id
        self.patience = patience
        #: When :meth:`end` returned, on the container's clock.
        self.ended_at = 0.0
        self._stream = stream
        self._exchange = exchange

    async def send(
        self,
        payload: bytes,
        data_type: DataType = BINARY,
        completion: CompletionState = COMPLETE,
    ) -> None:
        """Send a part.

        Raises:
            Broken: the platform takes no more, or has ended the stream.
        """
        part = PayloadPart(payload, data_type, completion)
        self._exchange.note("meanwhile", f"the client sends {_described(part)}", payload)
        try:
            async with asyncio.timeout(self.patience):
                await self._stream.send(part)
        except TimeoutError:
            raise Broken(f"the platform took no part for {self.patience:g} s") from None
        except PartwayError as error:
            raise Broken(f"the platform ended the stream: {error}") from None

    async def end_input(self) -> None:
        """End the input; raises as :meth:`send` does."""
        self._exchange.note("meanwhile", "the client ends its input")
        try:
            async with asyncio.timeout(self.patience):
                await self._stream.end_input()
        except TimeoutError:
            raise Broken(f"the platform took nothing for {self.patience:g} s") from None
        except PartwayError as error:
            raise Broken(f"the platform ended the stream: {error}") from None

    async def part(self) -> PayloadPart:
        """Receive the next part.

        Raises:
            Broken: no part came, or the stream ended.
        """
        found = await self._next()
        if isinstance(found, End):
            raise Broken(f"the client must get a part; it got {found}")
        return found

    async def parts(self, count: int) -> list[PayloadPart]:
        """Receive the next ``count`` parts; raises as :meth:`part` does."""
        return [await self.part() for _ in range(count)]

    async def end(self) -> End:
        """Wait for the stream's end; parts that come before the end are dropped.

        Raises:
            Broken: the stream goes on.
        """
        while not isinstance(found := await self._next(), End):
            continue
        return found

    def vanish(self) -> None:
        """Cut the client's connection without a Close."""
        self._exchange.note("meanwhile", "the client vanishes")
        self._stream.broken("the client vanished")

    async def leave(self) -> None:
        self._exchange.note("meanwhile", "the client leaves")
        await self._stream.close(cancel=True)

    async def _next(self) -> PayloadPart | End:
        try:
            async with asyncio.timeout(self.patience):
                part = await self._stream.receive()
        except TimeoutError:
            raise Broken(f"nothing came to the client within {self.patience:g} s") from None
        except ModelStreamFailed as error:
            return self._ended(End("model", error.code, error.message))
        except PlatformStreamFailed as error:
            return self._ended(End("platform", message=str(error)))
        except PartwayError as error:
            return self._ended(End("lost", message=str(error)))
        if part is None:
            return self._ended(End("clean"))
        self._exchange.note("meanwhile", f"the client gets {_described(part)}", part.payload)
        return part

    def _ended(self, end: End) -> End:
        self._exchange.note("meanwhile", f"the client gets {end}")
        self.ended_at = time.monotonic()
        return end


class RawClient:
    """A client that can send wrong events, in msgpack envelopes; it never reads."""

    def __init__(self, transport: asyncio.Transport, exchange: NotedExchange) -> None:
        self._transport = transport
        self._exchange = exchange

    def send(self, event: Mapping[str, object]) -> None:
        message = msgpack.packb(event)
        self._exchange.note("meanwhile", f"the client sends {event}", message)
        self._transport.write(frame_bytes(Opcode.BINARY, message))


@asynccontextmanager
async def upgraded(request: StreamRequest, patience: float) -> AsyncIterator[asyncio.Transport]:
    """Open a WebSocket to the platform that is never read; at the block's end it is cut.

    Raises:
        Broken: the WebSocket is not granted.
    """
    target, headers = request.upgrade(time.time())
    handshake = ClientHandshake(request.authority, target, headers, subprotocols=[_SUBPROTOCOL])
    try:
        found = await dial(
            request.address,
            handshake,
            connect_timeout=patience,
            handshake_timeout=patience,
            tls=request.context("http/1.1"),
        )
    except HandshakeRefused as refusal:
        raise Broken(f"the platform refused a stream with status {refusal.status}") from None
    except Unreachable as error:
        raise Broken(f"cannot open a stream to {request.url}: {error}") from None
    try:
        yield found.transport
    finally:
        found.transport.abort()


def _described(part: PayloadPart) -> str:
    return f"a part, {part.data_type.value} {part.completion.value}: {shown(part.payload)}"
