"""A crossing: one connection of the gateway's, and the matching one to the container."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.limits import CONTAINER_TLS_TIMEOUT
from partway.gateway.network.dialling import Address, Unreachable, reach
from partway.gateway.tls.trust import Trust
from partway.gateway.workbench.intermediary import heads
from partway.gateway.workbench.intermediary.connection_side import READ_BYTES, TcpSide, Watch
from partway.gateway.workbench.intermediary.faults import Fault, Refuse, Rules
from partway.gateway.workbench.intermediary.observer import (
    Observe,
    Observer,
    Sender,
    UpgradeRequest,
)
from partway.gateway.workbench.intermediary.streams import PassedStream, SpoiledStream, splice
from partway.log_lines import LogLine
from partway.protocol.limits import FINISH_TIMEOUT, LINGER_TIMEOUT, REQUEST_HEAD_TIMEOUT

log = logging.getLogger("partway.intermediary")


@dataclass(frozen=True, slots=True)
class Between:
    """The settings that all connections of one intermediary share, as its arguments name them.

    Attributes:
        observe: gives an observer for each stream that is watched.
        policy: the endpoint's, whose times bound the intermediary's too.
    """

    name: str
    container: Address
    rules: Rules
    observe: Observe | None
    policy: StreamPolicy
    tls: Trust | None = None


class Crossing:
    """One connection of the gateway's, from its request to its end.

    A first request for a WebSocket makes a stream, whose frames may be watched and spoiled. Any
    other request passes as bytes, with everything that follows on the connection.
    """

    def __init__(
        self, between: Between, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._between = between
        self._reader = reader
        self._writer = writer
        # Longer than the gateway's own patience: the gateway must end a stream, and say why.
        self._patience = between.policy.stall_timeout + LINGER_TIMEOUT
        self._observer: Observer | None = None
        self._sides: list[TcpSide] = []

    async def run(self) -> None:
        """Pass everything until both connections have ended; none is left open."""
        policy = self._between.policy
        longest = policy.handshake_timeout + policy.lifetime + FINISH_TIMEOUT
        gateway: TcpSide | None = None
        try:
            async with asyncio.timeout(REQUEST_HEAD_TIMEOUT):
                head, rest = await self._head()
            request = heads.upgrade_request(head)
            if request is not None and self._between.observe is not None:
                self._observer = self._between.observe(self._between.name, request)
            gateway = self._side(Sender.GATEWAY, self._reader, self._writer)
            async with asyncio.timeout(longest):
                if request is not None:
                    await self._stream(gateway, head, request)
                elif head or rest:
                    await self._splice(gateway, head + rest)
            for side in self._sides:
                await side.close()
        except OSError as error:  # a TimeoutError is an OSError
            # One side has failed, and the other side must not wait for it.
            log.debug(LogLine("dropped", endpoint=self._between.name, reason=str(error)))
        finally:
            for side in self._sides:
                side.reset()
            if gateway is None:
                self._writer.transport.abort()
            if self._observer is not None:
                self._observer.closed()

    async def _head(self) -> tuple[bytes, bytes]:
        """Read the request's whole head; without one, the bytes that came in its place."""
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as cut:
            return b"", cut.partial
        except asyncio.LimitOverrunError:
            return b"", await self._reader.read(READ_BYTES)
        return heads.addressed(head, self._between.container), b""

    def _side(
        self, sender: Sender, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> TcpSide:
        side = TcpSide(reader, writer, Watch(self._observer, sender), self._patience)
        self._sides.append(side)
        return side

    async def _dial(self, gateway: TcpSide) -> TcpSide | None:
        """Connect to the container; None if that fails, and the gateway's side is then reset."""
        reader = asyncio.StreamReader(READ_BYTES)
        where, tls = self._between.container, self._between.tls
        try:
            transport, protocol = await reach(
                where,
                lambda: asyncio.StreamReaderProtocol(reader),
                timeout=self._between.policy.connect_timeout,
                tls=None if tls is None else tls.context(),
                tls_timeout=CONTAINER_TLS_TIMEOUT,
            )
        except Unreachable as error:
            at = {"endpoint": self._between.name, "container": str(where)}
            log.warning(LogLine("no connection to the container", **at, reason=str(error)))
            Watch(self._observer, Sender.CONTAINER).ended(str(error))
            gateway.reset()
            return None
        writer = asyncio.StreamWriter(transport, protocol, reader, asyncio.get_running_loop())
        return self._side(Sender.CONTAINER, reader, writer)

    async def _splice(self, gateway: TcpSide, head: bytes) -> None:
        """Pass a connection that is not a stream: bytes, both ways."""
        container = await self._dial(gateway)
        if container is not None:
            await container.write(head)
            await splice(gateway, container)

    async def _stream(self, gateway: TcpSide, head: bytes, request: UpgradeRequest) -> None:
        faults = self._between.rules.faults_for(self._between.name, request.target)
        applied = self._applier(request)
        for fault in faults:
            if isinstance(fault, Refuse):
                applied(fault)
                await self._refuse(gateway, fault)
                return
        container = await self._dial(gateway)
        if container is None:
            return
        await container.write(head)
        stream = PassedStream(gateway, container, self._observer)
        if faults:
            stream = SpoiledStream(gateway, container, self._observer, faults, applied)
        await stream.run()

    async def _refuse(self, gateway: TcpSide, fault: Refuse) -> None:
        data, answer = heads.refusal(fault.status, fault.body)
        if self._observer is not None:
            self._observer.answered(answer)
        await gateway.write(data)
        Watch(self._observer, Sender.CONTAINER).ended()
        await gateway.close_behind_peer()

    def _applier(self, request: UpgradeRequest) -> Callable[[Fault], None]:
        """Make a function that logs each fault of this stream, once."""
        said: set[Fault] = set()
        stream = heads.request_id(request)

        def applied(fault: Fault) -> None:
            if fault not in said:
                said.add(fault)
                whose = {"endpoint": self._between.name, "request_id": stream}
                log.info(LogLine("fault", what=str(fault), **whose))

        return applied
