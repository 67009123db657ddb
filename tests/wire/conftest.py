"""A gateway in this process between a raw container and raw clients, on both event loops."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.http.routes import Route
from partway.gateway.network.dialling import Address
from partway.gateway.settings.settings import Settings
from partway.gateway.storage.data_directory import DataDirectory
from partway.gateway.storage.store.store import Store
from partway.gateway.streams.container_leg import Dialler, dial_container
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import Trust
from partway.protocol.connections.websocket import FrameConnection
from tests.gateway.streams.fakes import FakeClock
from tests.wire.dialects import DIALECTS, ENVELOPES, EnvelopeDialect, RawDialect
from tests.wire.event_dialect import EVENT_CLIENTS, EVENT_STREAMS
from tests.wire.peers import ENDPOINT, PATIENCE, RawContainer, RunningGateway

GatewayFor = Callable[..., Awaitable[RunningGateway]]

#: A machine that is busy with other tests may accept a connection later than the platform's 250 ms.
PATIENT = StreamPolicy(connect_timeout=PATIENCE)


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """Nothing that a stream made outlives its test."""


@pytest.fixture(autouse=True)
def _fresh_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page of metrics says how things are, and not how they were a second ago."""
    monkeypatch.setattr("partway.gateway.status_routes.METRICS_AGE", 0)


@pytest.fixture(autouse=True)
def _reset_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that do not end their side are told to at once, and not after half a minute."""
    for limit in ("HTTP2_LATE_QUIET", "HTTP2_LATE_QUIET_UNBEGUN", "HTTP2_LATE_QUIET_AT_CLOSE"):
        monkeypatch.setattr(f"partway.gateway.http.http2.late_input.{limit}", 0.01)


@pytest.fixture
async def container(anyio_backend: object) -> AsyncIterator[RawContainer]:
    """A container that accepts every stream, and then says what the test says."""
    async with RawContainer() as container:
        yield container


@pytest.fixture
async def gateway_for(
    container: RawContainer, anyio_backend: object, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayFor]:
    """Starts gateways whose one endpoint is the container.

    Arguments of what it yields: ``policy`` of the endpoint, another ``container``, or an
    ``address`` (or a ``container_port`` of this machine) in place of one, ``container_tls`` if it
    speaks TLS, ``tls`` for a port with TLS and a CA of its own, further ``routes``, the
    ``dialler``, the ``store``, the ``data`` directory, and further members of :class:`Settings`.
    """
    async with AsyncExitStack() as running:

        async def start(
            policy: StreamPolicy | None = None,
            container: RawContainer = container,
            address: Address | None = None,
            container_port: int | None = None,
            wall_clock: Callable[[], float] = time.time,
            tls: bool = False,
            container_tls: Trust | None = None,
            routes: tuple[Route, ...] = (),
            dialler: Dialler = dial_container,
            store: Store | None = None,
            data: DataDirectory | None = None,
            **settings: Any,
        ) -> RunningGateway:
            where = address or Address("127.0.0.1", container_port or container.port)
            policy = policy or StreamPolicy()
            if address is None:
                # On a busy machine it may accept later than the platform's 250 ms.
                policy = replace(policy, connect_timeout=PATIENCE)
            stopping = {"shutdown_grace": 0.0, "shutdown_spread": 0.0, "shutdown_hard": 1.0}
            settings = {
                "port": 0,
                "endpoints": (Endpoint.attached(ENDPOINT, where, policy, tls=container_tls),),
                **stopping,
                **settings,
            }
            context = ca = None
            if tls:
                folder = tmp_path_factory.mktemp("ca")
                files = LocalCa(folder).ensure(["localhost"], datetime.now(UTC))
                context, ca = server_context(files), files.ca
                settings.setdefault("tls_port", 0)
            gateway = Gateway(
                Settings(**settings), context, wall_clock, routes, dialler, data, store
            )
            listening = await gateway.start()
            started = RunningGateway(gateway, listening.port, container, EVENT_CLIENTS)
            started.tls_port, started.ca = listening.tls_port, ca
            running.push_async_callback(started.stop)
            return started

        yield start


ALL = DIALECTS | EVENT_STREAMS
EVENTS = ENVELOPES | EVENT_STREAMS


@pytest.fixture(params=ALL.values(), ids=ALL)
def dialect(request: pytest.FixtureRequest) -> RawDialect:
    """Each subprotocol, and event streams over each HTTP, in turn."""
    return request.param()


@pytest.fixture(params=EVENTS.values(), ids=EVENTS)
def events(request: pytest.FixtureRequest) -> EnvelopeDialect:
    """Each of those whose clients send events, in turn."""
    return request.param()


@pytest.fixture(params=DIALECTS.values(), ids=DIALECTS)
def subprotocol(request: pytest.FixtureRequest) -> RawDialect:
    """Each WebSocket subprotocol in turn, where a test makes frames itself."""
    return request.param()


@pytest.fixture(params=ENVELOPES.values(), ids=ENVELOPES)
def envelope(request: pytest.FixtureRequest) -> EnvelopeDialect:
    """Each subprotocol with envelopes in turn, where a test makes messages itself."""
    return request.param()


@pytest.fixture
def short_linger(monkeypatch: pytest.MonkeyPatch) -> float:
    """Closing connections that do not move are given up after this many seconds."""
    seconds = 0.1
    monkeypatch.setitem(FrameConnection.__init__.__kwdefaults__, "linger", seconds)
    return seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The streams' clock, which only the test advances."""
    clock = FakeClock()
    monkeypatch.setattr("partway.gateway.streams.bidirectional.LoopClock", lambda: clock)
    return clock
