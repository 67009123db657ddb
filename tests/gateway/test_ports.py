"""partway.gateway.ports: all of a gateway's ports are open, or none is."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest

from partway.gateway.gateway import Gateway
from partway.gateway.settings.settings import Settings
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from tests.wire.peers import RawClient

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.fixture
def context(tmp_path):
    return server_context(LocalCa(tmp_path).ensure(["localhost"], datetime.now(UTC)))


async def test_both_ports_listen_from_the_start_to_the_end(context):
    gateway = Gateway(Settings(apis=frozenset(), port=0, tls_port=0), context)
    listening = await gateway.start()
    assert gateway.ports is not None
    assert gateway.ports.listening == listening
    for port in (listening.port, listening.tls_port):
        (await RawClient.connect(port)).abort()
    await gateway.drain()
    for port in (listening.port, listening.tls_port):
        with pytest.raises(ConnectionRefusedError):
            await RawClient.connect(port)


async def test_where_the_second_cannot_be_had_the_first_is_closed(context):
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.create_server(("127.0.0.1", 0)) as free,
    ):
        port, tls_port = free.getsockname()[1], taken.getsockname()[1]
        free.close()
        gateway = Gateway(Settings(apis=frozenset(), port=port, tls_port=tls_port), context)
        with pytest.raises(OSError, match=f"127.0.0.1:{tls_port}"):
            await gateway.start()
        with pytest.raises(ConnectionRefusedError):
            await RawClient.connect(port)
