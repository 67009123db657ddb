"""gateway.network.dialling: connecting, upgrading, and every way in which neither happens."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import pytest

from partway.gateway.fleet.launchers.process import free_port
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.network.dialling import (
    Address,
    OutOfDescriptors,
    Unreachable,
    Untrusted,
    dial,
)
from partway.gateway.streams.container_leg import dial as dial_container
from partway.protocol.connections.upgrading import Upgraded
from partway.protocol.errors import ContainerError, ServiceUnavailable
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeRefused
from tests.descriptors import no_descriptor_left
from tests.wire.peers import soon, switching

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@pytest.fixture(autouse=True)
def _no_leaks(no_leaks: None) -> None:
    """What could not be dialled leaves no socket."""


@asynccontextmanager
async def server(serve: Serve, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """A TCP server; its port."""
    done = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
            await done.wait()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.transport.abort()

    async with await asyncio.start_server(handle, host, 0) as listening:
        try:
            yield listening.sockets[0].getsockname()[1]
        finally:
            done.set()


def answering(
    answer: Callable[[bytes], bytes], *, then: Callable[..., None] | None = None
) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await reader.readuntil(b"\r\n\r\n")))
        if then is not None:
            await writer.drain()
            then(writer)

    return serve


def reset(writer: asyncio.StreamWriter) -> None:
    linger = struct.pack("ii", 1, 0)
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def reach(
    host: str,
    port: int,
    *,
    connect_timeout: float = 5.0,
    handshake_timeout: float = 5.0,
    tls: ssl.SSLContext | None = None,
    tls_timeout: float | None = None,
) -> Upgraded:
    handshake = ClientHandshake(f"{host}:{port}", "/")
    return await dial(
        Address(host, port),
        handshake,
        connect_timeout=connect_timeout,
        handshake_timeout=handshake_timeout,
        tls=tls,
        tls_timeout=tls_timeout,
    )


async def failure(host: str, port: int, **how: Any) -> Unreachable:
    with pytest.raises(Unreachable) as caught:
        await soon(reach(host, port, **how))
    return caught.value


async def unreachable(host: str, port: int, **how: Any) -> str:
    return str(await failure(host, port, **how))


@pytest.fixture
def resolves_to(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every name resolve to these addresses, in this order."""

    def set_addresses(*hosts: str) -> None:
        async def getaddrinfo(self: object, host: str, port: int, **_: Any) -> list[Any]:
            return [
                (socket.AF_INET6 if ":" in to else socket.AF_INET, socket.SOCK_STREAM, 6, "", (to,))
                for to in hosts
            ]

        monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", getaddrinfo)

    return set_addresses


# --- It works ------------------------------------------------------------------------------------


async def test_what_follows_the_head_is_kept_and_reading_waits():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(switching(request) + b"\x81\x02hi")

    async with server(serve) as port:
        upgraded = await soon(reach("127.0.0.1", port))
        assert upgraded.accepted.trailing == b"\x81\x02hi"
        assert not upgraded.transport.is_reading()
        upgraded.transport.abort()


async def test_an_answer_in_single_bytes():
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in switching(await reader.readuntil(b"\r\n\r\n")):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with server(serve) as port:
        upgraded = await soon(reach("127.0.0.1", port))
        upgraded.transport.abort()


async def test_a_name():
    async with server(answering(switching)) as port:
        (await soon(reach("localhost", port))).transport.abort()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
async def test_an_ipv6_address():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no ::1")
    async with server(answering(switching), "::1") as port:
        (await soon(reach("::1", port))).transport.abort()


def test_an_address_as_it_is_written():
    assert str(Address("127.0.0.1", 80)) == "127.0.0.1:80"
    assert str(Address("::1", 80)) == "[::1]:80"


@pytest.mark.parametrize("first", ["::1", "127.0.0.2", "192.0.2.1"])
async def test_the_next_address_is_tried(resolves_to, first):
    """A host with an address that refuses, or does not answer, is reached by another."""
    resolves_to(first, "127.0.0.1")
    async with server(answering(switching)) as port:
        upgraded = await soon(reach("model.internal", port, connect_timeout=0.25))
        assert upgraded.transport.get_extra_info("peername")[0] == "127.0.0.1"
        upgraded.transport.abort()


# --- It does not ---------------------------------------------------------------------------------


async def test_refused():
    assert "refused" in (await unreachable("127.0.0.1", free_port())).lower()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_no_descriptor_left(host):
    port = free_port()
    await asyncio.get_running_loop().getaddrinfo(host, port)  # the C library loads its resolvers
    with no_descriptor_left(), pytest.raises(OutOfDescriptors, match="open files"):
        await soon(reach(host, port))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EBUSY, "Device or resource busy"),  # with mdns4_minimal in nsswitch.conf
        socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
    ],
    ids=["EBUSY", "EAI_AGAIN", "EAI_NONAME"],
)
async def test_no_descriptor_left_whatever_the_resolver_says(monkeypatch, error):
    """Its error is that of a name without address only where a descriptor was left for it."""

    async def getaddrinfo(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", getaddrinfo)
    with no_descriptor_left(), pytest.raises(OutOfDescriptors, match="open files"):
        await soon(reach("model.internal", 80))
    assert (await unreachable("model.internal", 80)).startswith("the host model.internal has no")


async def test_no_descriptor_left_on_the_machine(monkeypatch):
    async def create_connection(*_: object, **__: object) -> None:
        raise OSError(errno.ENFILE, "Too many open files in system")

    loop = type(asyncio.get_running_loop())
    monkeypatch.setattr(loop, "create_connection", create_connection)
    with pytest.raises(OutOfDescriptors, match="in system"):
        await soon(reach("127.0.0.1", 80))


@pytest.mark.clause("4-4", "4-6")
async def test_no_descriptor_left_is_the_gateways_fault():
    """The container is well: 503, not 424."""
    port = free_port()
    with no_descriptor_left(), pytest.raises(ServiceUnavailable):
        await soon(dial_container(Address("127.0.0.1", port), "/", "id", StreamPolicy()))


async def test_the_last_addresss_trouble_is_told(resolves_to):
    resolves_to("127.0.0.2", "127.0.0.1")
    assert "refused" in (await unreachable("model.internal", free_port())).lower()


async def test_a_name_without_address():
    message = await unreachable("no-such-host.invalid", 80)
    assert message.startswith("the host no-such-host.invalid has no address")


async def test_a_name_that_dns_cannot_have():
    found = await failure("a" * 64 + ".invalid", 80)
    assert str(found).startswith("the host aaaa")
    assert (found.unnamed, found.passing) == ("its host has no address", False)


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), False),
        (socket.gaierror(socket.EAI_FAIL, "Non-recoverable failure"), False),
        (socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution"), True),
        (OSError(errno.EBUSY, "Device or resource busy"), True),
        (TimeoutError(), True),
    ],
    ids=repr,
)
async def test_an_unknown_name_stays_unknown(monkeypatch, error, passing):
    async def getaddrinfo(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(asyncio.get_running_loop()), "getaddrinfo", getaddrinfo)
    assert (await failure("model.internal", 80)).passing is passing


async def test_a_refused_connection_may_be_accepted_later():
    assert (await failure("127.0.0.1", free_port())).passing


def tls_error(kind: type[ssl.SSLError], reason: str) -> ssl.SSLError:
    """As OpenSSL's errors reach us."""
    error = kind(1, f"[SSL: {reason}]")
    error.reason = reason
    return error


@pytest.fixture
def tls_raises(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Makes every connection be accepted, and its TLS end in the next of these errors."""

    def set_errors(*errors: Exception) -> None:
        left = iter(errors)

        async def sock_connect(*_: object) -> None:
            pass

        async def create_connection(*_: object, sock: socket.socket, **__: object) -> None:
            sock.close()
            raise next(left)

        loop = type(asyncio.get_running_loop())
        monkeypatch.setattr(loop, "sock_connect", sock_connect)
        monkeypatch.setattr(loop, "create_connection", create_connection)

    return set_errors


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (tls_error(ssl.SSLError, "WRONG_VERSION_NUMBER"), False),
        (tls_error(ssl.SSLError, "RECORD_LAYER_FAILURE"), False),
        (tls_error(ssl.SSLError, "NO_PROTOCOLS_AVAILABLE"), False),
        (tls_error(ssl.SSLEOFError, "UNEXPECTED_EOF_WHILE_READING"), True),
        (ConnectionResetError(), True),
    ],
    ids=repr,
)
async def test_tls_that_fails(tls_raises, error, passing):
    tls_raises(error)
    found = await failure("127.0.0.1", 443, tls=ssl.create_default_context())
    assert found.passing is passing


@pytest.mark.parametrize(
    ("code", "wrong"), [(9, "time"), (10, "time"), (18, "root"), (20, "root"), (62, "name")]
)
async def test_what_is_wrong_with_a_certificate(tls_raises, code, wrong):
    error = ssl.SSLCertVerificationError(1, "[SSL: CERTIFICATE_VERIFY_FAILED]")
    error.verify_code, error.verify_message = code, "the host is secret.internal"
    tls_raises(error)
    found = await failure("127.0.0.1", 443, tls=ssl.create_default_context())
    assert isinstance(found, Untrusted)
    assert (found.wrong, found.passing) == (wrong, False)
    assert str(found).endswith(": the host is secret.internal")
    assert found.unnamed == "the server's certificate is not trusted"


async def test_what_a_server_answered_is_told_before_an_address_without_one(
    tls_raises, resolves_to
):
    """Of a name with two addresses, whichever comes first."""
    resolves_to("127.0.0.1", "127.0.0.2")
    refused = ConnectionRefusedError(errno.ECONNREFUSED, "")
    tls_raises(tls_error(ssl.SSLError, "NO_PROTOCOLS_AVAILABLE"), refused)
    found = await failure("localhost", 443, tls=ssl.create_default_context())
    assert str(found).startswith("the TLS handshake with the server failed")


@pytest.mark.clause("4-6")
@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["clear", "TLS"])
async def test_a_full_backlog_is_waited_for_250_ms(tls):
    """The kernel drops what does not fit: nobody refuses, nobody accepts."""
    with ExitStack() as stack:
        busy = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        port = busy.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(("127.0.0.1", port))
        started = time.monotonic()
        with pytest.raises(ContainerError) as caught:
            await soon(dial_container(Address("127.0.0.1", port), "/", "id", StreamPolicy(), tls))
        waited = time.monotonic() - started
    assert "no connection was accepted within 250 ms (connect_timeout)" in caught.value.message
    assert str(port) not in caught.value.message, "it goes to the client"
    assert caught.value.members["OriginalStatusCode"] == 0
    assert 0.24 <= waited < 10, "the system would wait for minutes"


@pytest.mark.parametrize(
    ("times", "said"),
    [
        ({"connect_timeout": 0.05, "tls_timeout": 0.1}, "0.1 s of connecting"),
        ({"connect_timeout": 0.1}, "0.1 s of dialling (connect_timeout)"),
    ],
    ids=["apart", "together"],
)
async def test_tls_that_does_not_come_about_in_time(times, said):
    async def listen(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server(listen) as port:
        message = await unreachable("127.0.0.1", port, tls=ssl.create_default_context(), **times)
    assert message == f"the TLS handshake did not end within {said}"


@pytest.mark.clause("4-6")
async def test_a_busy_loop_does_not_count_against_the_server():
    """The kernel has accepted long before the loop, whose every round is late, looks."""

    async def be_busy() -> None:
        for _ in range(5):
            time.sleep(0.3)  # noqa: ASYNC251 – that is what is tried
            await asyncio.sleep(0)

    async with server(answering(switching)) as port:
        busy = asyncio.create_task(be_busy())
        try:
            upgraded = await soon(reach("127.0.0.1", port, connect_timeout=0.25))
        finally:
            busy.cancel()
        upgraded.transport.abort()


@pytest.mark.clause("4-6")
async def test_no_answer_in_time():
    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching")

    async with server(listen) as port:
        message = await unreachable("127.0.0.1", port, handshake_timeout=0.05)
    assert message == "no answer to the upgrade within 0.05 s"


@pytest.mark.parametrize(
    "head", [b"", b"H", b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"]
)
@pytest.mark.parametrize("ending", [asyncio.StreamWriter.close, reset], ids=["FIN", "RST"])
async def test_the_connection_ends_in_the_head(head, ending):
    async with server(answering(lambda request: head, then=ending)) as port:
        message = await unreachable("127.0.0.1", port)
    assert "ended before the upgrade was answered" in message or "reset" in message.lower()


@pytest.mark.parametrize("answer", ["refusal", "nonsense", "nothing"])
async def test_who_cannot_be_used_is_hung_up_on(answer):
    gone = asyncio.Event()
    said = {
        "refusal": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        "nonsense": b"\0\r\n\r\n",
        "nothing": b"",
    }

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said[answer])
        with suppress(ConnectionError):
            await reader.read()
        gone.set()

    async with server(serve) as port:
        with pytest.raises((Unreachable, HandshakeRefused)):
            await soon(reach("127.0.0.1", port, handshake_timeout=0.1))
        await soon(gone.wait(), "the connection's end at the server")


async def test_a_server_that_speaks_first():
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example ESMTP\r\n\r\n")

    async with server(greet) as port:
        message = await unreachable("127.0.0.1", port)
    assert "sent bytes before it got the request" in message or "is not HTTP" in message


@pytest.mark.clause("4-6")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (lambda request: switching(request, accept="wrong"), "does not match the key"),
        (
            lambda request: switching(request, "Sec-WebSocket-Extensions: permessage-deflate"),
            "the server chose an extension that was not offered",
        ),
        (
            lambda request: switching(request, "Sec-WebSocket-Protocol: chat"),
            "the server chose a subprotocol that was not offered",
        ),
        (lambda request: b"\0\1\2\r\n\r\n", "is not HTTP"),
        (lambda request: b"HTTP/1.1 101 OK\r\n" + b"A: b\r\n" * 200_000, "is not HTTP"),
    ],
    ids=["key", "extension", "subprotocol", "garbage", "endless head"],
)
async def test_a_wrong_answer(answer, why):
    async with server(answering(answer)) as port:
        assert why in await unreachable("127.0.0.1", port)


@pytest.mark.clause("4-6")
async def test_a_refusal_keeps_its_status_and_the_beginning_of_its_body():
    body = b"x" * 3000
    head = b"HTTP/1.1 403 Forbidden\r\nX-Why: because\r\nContent-Length: 3000\r\n\r\n"
    async with server(answering(lambda request: head + body)) as port:
        with pytest.raises(HandshakeRefused) as caught:
            await soon(reach("127.0.0.1", port))
    assert caught.value.status == 403
    assert caught.value.headers["x-why"] == "because"
    assert caught.value.body == body[:2048]


@pytest.mark.clause("4-6")
async def test_a_redirect_is_not_followed():
    asked = []

    def elsewhere(request: bytes) -> bytes:
        asked.append(request)
        return b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n"

    async with server(answering(elsewhere)) as port:
        with pytest.raises(HandshakeRefused) as caught:
            await soon(reach("127.0.0.1", port))
    assert caught.value.status == 302
    assert len(asked) == 1


async def test_a_dial_that_is_cancelled_while_it_connects_leaves_nothing():
    with socket.create_server(("127.0.0.1", 0)) as listening:  # nobody accepts
        dialling = asyncio.create_task(reach("127.0.0.1", listening.getsockname()[1]))
        await asyncio.sleep(0)
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling


async def test_a_dial_that_is_cancelled_while_it_waits_for_the_answer_leaves_nothing():
    asked = asyncio.Event()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()

    async with server(listen) as port:
        dialling = asyncio.create_task(reach("127.0.0.1", port))
        await soon(asked.wait())
        dialling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialling
