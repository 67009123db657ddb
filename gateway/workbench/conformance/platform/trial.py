"""The trial of a platform's check: an instrumented container, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from partway.gateway.client import (
    ClientStream,
    Credentials,
    GatewayUnreachable,
    PartwayError,
    StreamRefused,
    connect,
)
from partway.gateway.client.request import request_for
from partway.gateway.limits import (
    CLOSE_TIMEOUT,
    CONTAINER_CONNECT_TIMEOUT,
)
from partway.gateway.workbench.conformance.evidence import NotedExchange
from partway.gateway.workbench.conformance.platform.client import Client, RawClient, upgraded
from partway.gateway.workbench.conformance.platform.container import (
    ContainerStream,
    InstrumentedContainer,
)
from partway.gateway.workbench.conformance.verdict import Broken, Untried
from partway.protocol.limits import CONTAINER_PING_INTERVAL, CONTAINER_PINGS_UNANSWERED


@dataclass(frozen=True, slots=True)
class Times:
    """The times of an endpoint's policy; by default the documented ones.

    Attributes:
        ping_interval: seconds between Pings (clause 1.4-1).
        pings_unanswered: how many Pings a container may leave unanswered.
        close_timeout: seconds for a container's answer to a Close (clause 1.5-12).
        connect_timeout: seconds for a container to accept a connection (clause 1.1-2).
    """

    ping_interval: float = CONTAINER_PING_INTERVAL
    pings_unanswered: int = CONTAINER_PINGS_UNANSWERED
    close_timeout: float = CLOSE_TIMEOUT
    connect_timeout: float = CONTAINER_CONNECT_TIMEOUT

    @property
    def until_lost(self) -> float:
        """Seconds until the platform gives up a stream whose container answers no Ping."""
        return self.ping_interval * (self.pings_unanswered + 1)


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform under test: any gateway with this API.

    Attributes:
        url: the URL of the gateway's listener, ``http://HOST:PORT``.
        endpoint: the endpoint whose container is the instrumented one.
        hurried: an endpoint with the same container and short times; None without one.
        times: of ``hurried``, or of ``endpoint`` where ``hurried`` is None.
        transport: the surface of the gateway that the client uses.
        patience: seconds for an answer that is due at once.
        credentials: to sign with; None to sign nothing.
        region: the region that signatures name.
        ca: PEM file of the roots to trust.
    """

    url: str
    endpoint: str
    hurried: str | None = None
    times: Times = Times()
    transport: Literal["websocket", "http2"] = "websocket"
    patience: float = 10.0
    credentials: Credentials | None = None
    region: str = "us-east-1"
    ca: Path | None = None

    def connect(
        self, endpoint: str | None = None, *, path: str | None = None, query: str | None = None
    ) -> AbstractAsyncContextManager[ClientStream]:
        """Open a stream as any client does: see :func:`partway.gateway.client.connect`."""
        return connect(
            self.url,
            endpoint or self.endpoint,
            transport=self.transport,
            path=path,
            query=query,
            credentials=self.credentials,
            region=self.region,
            ca=self.ca,
            connect_timeout=self.patience,
            open_timeout=self.patience,
        )


@dataclass(slots=True)
class PlatformTrial:
    """One check of a platform, while it is tried.

    Attributes:
        container: the endpoint's container, with instruments.
        fast: whether checks that take minutes are left out.
        kept: streams of earlier checks, since several checks look at the same stream.
        exchanges: the records so far, one for each stream.
    """

    platform: Platform
    container: InstrumentedContainer
    fast: bool = False
    kept: dict[str, ContainerStream] = field(default_factory=dict)
    exchanges: list[NotedExchange] = field(default_factory=list)

    @property
    def patience(self) -> float:
        return self.platform.patience

    def hurried(self) -> str:
        """Name the endpoint with short times, for checks that wait for them to pass.

        Raises:
            Untried: the endpoint's times are minutes, and ``fast`` leaves such checks out.
        """
        if self.platform.hurried is None and self.fast:
            raise Untried("takes minutes with the documented times: leave --fast out")
        return self.platform.hurried or self.platform.endpoint

    @asynccontextmanager
    async def stream(
        self,
        title: str,
        *,
        path: str | None = None,
        query: str | None = None,
        endpoint: str | None = None,
    ) -> AsyncIterator[tuple[Client, ContainerStream]]:
        """Open a stream through the platform: its client, and the container's side.

        Raises:
            Broken: the stream is not granted, or nothing reaches the container.
        """
        platform = self.platform
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(
                    platform.connect(endpoint, path=path, query=query)
                )
            except StreamRefused as error:
                raise Broken(f"the platform refused the stream: {error}") from None
            except GatewayUnreachable as error:
                raise Broken(
                    f"no gateway answers: {error}", "start the gateway, or correct its URL"
                ) from None
            seen = await self.container.stream(platform.patience)
            seen.exchange.title = title
            self.exchanges.append(seen.exchange)
            yield Client(stream, seen.exchange, platform.patience), seen
        seen.finish()  # last, so that the client does not lose its model first

    @asynccontextmanager
    async def raw_stream(self, title: str) -> AsyncIterator[tuple[RawClient, ContainerStream]]:
        """Open a stream over WebSocket, on which the check chooses the client's envelopes."""
        platform = self.platform
        request = request_for(
            platform.url,
            platform.endpoint,
            {},
            ca=platform.ca,
            credentials=platform.credentials,
            region=platform.region,
            token=None,
        )
        async with upgraded(request, platform.patience) as transport:
            seen = await self.container.stream(platform.patience)
            seen.exchange.title = title
            self.exchanges.append(seen.exchange)
            yield RawClient(transport, seen.exchange), seen

    async def refused(self, endpoint: str | None = None) -> StreamRefused:
        """Ask for a stream that must be refused; return the refusal.

        Raises:
            Broken: the stream is granted, or the request is not answered.
        """
        try:
            async with self.platform.connect(endpoint):
                raise Broken("the client has a stream that the container did not grant")
        except StreamRefused as refusal:
            return refusal
        except PartwayError as error:
            raise Broken(f"the client gets {error}, not a refusal") from None

    async def once(
        self, observe: Callable[[PlatformTrial], Awaitable[ContainerStream]]
    ) -> ContainerStream:
        """Observe a stream once, and keep it for further checks that look at the same stream."""
        name = observe.__qualname__
        if name not in self.kept:
            self.kept[name] = await observe(self)
            return self.kept[name]
        self.exchanges.append(self.kept[name].exchange)
        return self.kept[name]
