"""A container behind TLS: the stream is the same, and who is not who its URL says gets none."""

from __future__ import annotations

import asyncio
import logging
import ssl
from datetime import UTC, datetime

import pytest

from partway.gateway.network.dialling import Address
from partway.gateway.tls.context import server_context
from partway.gateway.tls.local_ca import LocalCa
from partway.gateway.tls.trust import Trust
from partway.gateway.workbench.intermediary.dialler import InterposingDialler
from partway.gateway.workbench.intermediary.faults import Rules
from tests.frame_factory import BINARY, TEXT, close, frame
from tests.wire.conftest import PATIENT
from tests.wire.peers import RAW, RawContainer, soon, upgrade_request


@pytest.fixture
def files(tmp_path):
    return LocalCa(tmp_path / "of-the-container").ensure(["localhost"], datetime.now(UTC))


@pytest.fixture
def names():
    """The server names that clients have asked for."""
    return []


@pytest.fixture
async def behind_tls(files, names, anyio_backend):
    context = server_context(files)
    context.sni_callback = lambda handshake, name, _: names.append(name)
    async with RawContainer(tls=context) as container:
        yield container


def at(container, host="localhost"):
    return Address(host, container.port)


async def refused(gateway, caplog):
    """What the client is told, and the one line that the operator has."""
    with caplog.at_level(logging.INFO):
        response = await gateway.request(upgrade_request())
    assert response.status == 424
    assert response.json["OriginalStatusCode"] == 0
    (line,) = [each.getMessage() for each in caplog.records if each.name == "partway.gateway"]
    return response.json["Message"], line


@pytest.mark.parametrize("between", [False, True], ids=["straight", "through an intermediary"])
async def test_a_whole_stream(gateway_for, behind_tls, files, names, between):
    trust = Trust(files.ca)
    async with InterposingDialler(Rules(())) as dialler:
        settings = {"dialler": dialler} if between else {}
        gateway = await gateway_for(
            container=behind_tls, address=at(behind_tls), container_tls=trust, **settings
        )
        client, model = await gateway.open(RAW)
        assert names == ["localhost"]
        assert model.header("host") == f"localhost:{behind_tls.port}"
        client.send_frame(TEXT, b"hello")
        assert (await model.frame()).payload == b"hello"
        model.send(frame(BINARY, b"x" * 300_000))
        assert (await client.frame()).payload == b"x" * 300_000
        client.send(close(1000))
        await model.frame()
        model.send(close(1000))
        await client.until_close()
        await soon(client.eof())
        await gateway.stop()


async def test_the_containers_own_end_is_its_end(gateway_for, behind_tls, files):
    gateway = await gateway_for(
        container=behind_tls, address=at(behind_tls), container_tls=Trust(files.ca)
    )
    client, model = await gateway.open(RAW)
    model.abort()
    await client.until_close()
    assert gateway.causes() == {"container_lost": 1}


@pytest.mark.clause("4-6")
async def test_a_certificate_of_nobody_we_trust(gateway_for, behind_tls, caplog):
    gateway = await gateway_for(container=behind_tls, address=at(behind_tls), container_tls=Trust())
    told, line = await refused(gateway, caplog)
    what = "cannot open a stream to the container: the server's certificate is not trusted"
    assert told == what
    assert f"endpoint=model container=https://localhost:{behind_tls.port} status=424" in line
    assert f'reason="{what}: ' in line
    assert "certificate in certificate chain" in line or "local issuer certificate" in line


@pytest.mark.clause("4-6")
async def test_a_certificate_of_another_host(gateway_for, behind_tls, files, caplog):
    """The reason names the host, so the operator alone has it."""
    gateway = await gateway_for(
        container=behind_tls, address=at(behind_tls, "127.0.0.1"), container_tls=Trust(files.ca)
    )
    told, line = await refused(gateway, caplog)
    assert told == "cannot open a stream to the container: the server's certificate is not trusted"
    assert "certificate is not valid for '127.0.0.1'" in line


@pytest.mark.clause("4-6")
async def test_a_container_without_tls(gateway_for, caplog):
    def no_request(_, writer):
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(no_request, "127.0.0.1", 0) as server:
        address = Address(*server.sockets[0].getsockname())
        gateway = await gateway_for(address=address, container_tls=Trust())
        told, line = await refused(gateway, caplog)
    what = "cannot open a stream to the container: the server does not speak TLS on this port ("
    assert told.startswith(what)
    assert told in line


@pytest.mark.clause("4-6")
async def test_tls_at_a_container_that_is_asked_without(gateway_for, behind_tls, caplog):
    gateway = await gateway_for(PATIENT, container=behind_tls, address=at(behind_tls))
    told, _ = await refused(gateway, caplog)
    assert "the connection ended before the upgrade was answered" in told


@pytest.mark.clause("4-6")
async def test_a_host_without_address_is_named_to_the_operator_alone(gateway_for, caplog):
    gateway = await gateway_for(address=Address("no-such-host.invalid", 80))
    told, line = await refused(gateway, caplog)
    assert told == "cannot open a stream to the container: its host has no address"
    assert "the host no-such-host.invalid has no address" in line


async def test_the_usual_port_is_not_in_the_host(gateway_for, files, monkeypatch):
    """So that a proxy which routes by Host takes it for what its clients send."""
    async with RawContainer(tls=server_context(files)) as container:
        monkeypatch.setattr("partway.gateway.streams.container_leg.HTTPS_PORT", container.port)
        gateway = await gateway_for(
            container=container, address=at(container), container_tls=Trust(files.ca)
        )
        _, model = await gateway.open(RAW)
        assert model.header("host") == "localhost"


async def test_a_handshake_has_its_own_time(gateway_for, files, monkeypatch):
    """What a far host's TLS takes is more than a connection in one data centre may take."""
    reached = []

    async def reach(address, factory, *, timeout, tls, tls_timeout):
        reached.append((timeout, tls_timeout))
        raise ConnectionError

    monkeypatch.setattr("partway.gateway.network.dialling.reach", reach)
    for trust in (None, Trust()):
        gateway = await gateway_for(address=Address("127.0.0.1", 9), container_tls=trust)
        await gateway.request(upgrade_request())
    assert reached == [(0.25, 5.0), (0.25, 5.0)]


def test_a_gateway_asks_for_tls_1_2_at_least():
    assert Trust().context().minimum_version >= ssl.TLSVersion.TLSv1_2
