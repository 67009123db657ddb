"""Connecting to a server, also by WebSocket: to a container, or from our client to a gateway.

Clause 4-6 defines the errors for a container that cannot be reached.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

from partway.gateway.limits import CONTAINER_RESOLVE_TIMEOUT
from partway.gateway.network.silent_hosts import SILENCE, silent_hosts
from partway.protocol.connections.upgrading import Upgraded, Upgrading, upgrade
from partway.protocol.limits import LINGER_TIMEOUT
from partway.protocol.websocket.handshake import ClientHandshake, HandshakeBroken, HandshakeCut

_P = TypeVar("_P", bound=asyncio.BaseProtocol)
#: A result of ``getaddrinfo``: family, type, protocol, canonical name, and the address, which is
#: first.
_Found = tuple[int, int, int, str, tuple[str | int | bytes, ...]]

#: The default port of ``https://`` (RFC 9110 §4.2.2).
HTTPS_PORT: Final = 443
#: The message for an unknown name, for clients that must not see the name.
_NO_ADDRESS: Final = "its host has no address"

#: Errors of a process, or a machine, without a free file descriptor.
NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})

#: Steps in which the time for a connection is counted: the loops of asyncio and uvloop need about
#: five rounds from the kernel's word to a transport.
_STEPS: Final = 10

#: OpenSSL's codes of faults other than an untrusted root: the certificate is not valid yet or has
#: expired, or has another host name, e-mail or IP address.
_WRONG: Final[dict[int, Literal["time", "name"]]] = {
    **dict.fromkeys((9, 10), "time"),
    **dict.fromkeys((62, 63, 64), "name"),
}

#: OpenSSL's names, by version, for an answer whose first bytes are no record of TLS.
_CLEARTEXT: Final = frozenset({"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL"})


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Address:
    """Host and TCP port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class Unreachable(Exception):
    """A server gave no connection, or no valid answer to the upgrade; the message says why.

    Attributes:
        unnamed: the message without the server's name, for clients that must not know it.
        passing: whether a later attempt may succeed. It cannot if the name is unknown, the
            certificate is not trusted, or the server speaks another protocol.
        asked: whether the server has been sent a request.
    """

    def __init__(
        self, why: str, unnamed: str | None = None, *, passing: bool = True, asked: bool = False
    ) -> None:
        super().__init__(why)
        self.unnamed = why if unnamed is None else unnamed
        self.passing = passing
        self.asked = asked


class Silent(Unreachable):
    """The server's host gives no sign of life; a live one refuses what it does not accept."""


class Untrusted(Unreachable):
    """The server's certificate is not trusted.

    Attributes:
        wrong: the cause: the certificate's names, the time, or the roots to trust.
    """

    def __init__(self, why: str, *, wrong: Literal["name", "time", "root"]) -> None:
        what = "the server's certificate is not trusted"
        super().__init__(f"{what}: {why}", what, passing=False)  # the reason names our host
        self.wrong = wrong


class OutOfDescriptors(Unreachable):
    """This process has no file descriptor left for a connection; the server is not at fault."""


async def dial(
    address: Address,
    handshake: ClientHandshake,
    *,
    connect_timeout: float,
    handshake_timeout: float,
    tls: ssl.SSLContext | None = None,
    tls_timeout: float | None = None,
) -> Upgraded:
    """Connect to a server, and upgrade the connection to a WebSocket.

    Args:
        address: the server's.
        handshake: the upgrade to ask for.
        connect_timeout: see :func:`reach`.
        handshake_timeout: seconds for the answer to the upgrade.
        tls: see :func:`reach`.
        tls_timeout: see :func:`reach`.

    Raises:
        HandshakeRefused: the server answered with another status than 101.
        OutOfDescriptors: this process, or its machine, has no file descriptor left.
        Unreachable: the upgrade failed for any other reason; the connection is gone then.
    """
    transport, upgrading = await reach(
        address, Upgrading, timeout=connect_timeout, tls=tls, tls_timeout=tls_timeout
    )
    try:
        return await upgrade(transport, upgrading, handshake, handshake_timeout)
    except TimeoutError:
        why = f"no answer to the upgrade within {handshake_timeout:g} s"
        raise Unreachable(why, asked=True) from None
    except (HandshakeBroken, OSError) as error:
        passing, asked = isinstance(error, HandshakeCut | OSError), upgrading.has_asked
        raise Unreachable(str(error), passing=passing, asked=asked) from None


async def reach(
    address: Address,
    factory: Callable[[], _P],
    *,
    timeout: float,
    tls: ssl.SSLContext | None = None,
    tls_timeout: float | None = None,
) -> tuple[asyncio.Transport, _P]:
    """Connect to a server.

    Args:
        address: the server's.
        factory: makes the protocol of the connection.
        timeout: seconds for each of the host's addresses to accept.
        tls: the client's side of TLS; None for cleartext.
        tls_timeout: seconds for TLS from there on; None if ``timeout`` is for both together.

    Raises:
        OutOfDescriptors: this process, or its machine, has no file descriptor left.
        Unreachable: connecting failed for any other reason.
    """
    loop = asyncio.get_running_loop()
    troubles: list[Unreachable] = []
    for family, kind, proto, _, place in await _resolved(address):
        at = (str(place[0]), address.port)
        accepted = False
        try:
            async with _attended(timeout) as begin_anew:
                if tls is None:
                    return await loop.create_connection(factory, *at)
                connection = await _accepted(socket.socket(family, kind, proto), at)
                accepted = True
                if tls_timeout is not None:
                    begin_anew(tls_timeout)
                return await loop.create_connection(
                    factory,
                    sock=connection,
                    ssl=tls,
                    server_hostname=address.host,
                    # For a peer that does not close TLS; asyncio would wait 30 s for it.
                    ssl_shutdown_timeout=LINGER_TIMEOUT,
                )
        except TimeoutError:
            silent_hosts.suspect(*at)
            troubles.append(_given_up(timeout, tls_timeout, accepted=accepted))
        except ssl.SSLError as error:
            troubles.append(without_tls(error))
        except OSError as error:
            _check_descriptors(error)
            if error.errno in SILENCE:
                silent_hosts.suspect(*at)
            troubles.append(not_connected(error))
    if not troubles:
        why = f"the host {address.host} has no address"
        raise Unreachable(why, _NO_ADDRESS, passing=False)
    # A server's wrong answer says more than an address without a server.
    raise next((each for each in troubles if not each.passing), troubles[-1])


def ip_family(host: str) -> socket.AddressFamily | None:
    """Return the family of a host that is an IP address; None for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):  # a ValueError: not in ASCII, or with a NUL
            socket.inet_pton(family, host)
            return family
    return None


def not_connected(error: OSError) -> Unreachable:
    """Make the error for a connection that the system could not make."""
    if error.errno in NO_DESCRIPTOR:
        return OutOfDescriptors(os.strerror(error.errno))
    # Not strerror: asyncio's says "Connect call failed", whatever the reason.
    why = os.strerror(error.errno) if error.errno else str(error) or "the server hung up"
    return Silent(why) if error.errno in SILENCE else Unreachable(why)


def not_accepted(timeout: float) -> Unreachable:
    why = f"no connection was accepted within {timeout * 1000:g} ms (connect_timeout)"
    return Silent(why)


async def _resolved(address: Address) -> Sequence[_Found]:
    """Resolve a server's host; an IP address needs no resolver."""
    family = ip_family(address.host)
    if family is not None:
        where = (address.host, address.port)
        return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)]
    what = f"the host {address.host} has no address"
    try:
        async with asyncio.timeout(CONTAINER_RESOLVE_TIMEOUT):
            return await asyncio.get_running_loop().getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM
            )
    except OSError as error:  # a TimeoutError is one
        _check_descriptors(error)
        _try_descriptor()
        passing = not isinstance(error, socket.gaierror) or error.errno == socket.EAI_AGAIN
        raise Unreachable(f"{what}: {error}", _NO_ADDRESS, passing=passing) from None
    except UnicodeError as error:  # no name of DNS: with a label of 64 letters, say
        raise Unreachable(f"{what}: {error}", _NO_ADDRESS, passing=False) from None


async def _accepted(connection: socket.socket, place: tuple[str, int]) -> socket.socket:
    """Wait until a socket's connection is accepted; close the socket on failure."""
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, place)
    except BaseException:
        connection.close()
        raise
    return connection


def _given_up(timeout: float, tls_timeout: float | None, *, accepted: bool) -> Unreachable:
    """Make the error for an address whose time is over, by the limit that applies."""
    if not accepted:
        return not_accepted(timeout)
    if tls_timeout is None:
        why = f"the TLS handshake did not end within {timeout:g} s of dialling (connect_timeout)"
    else:
        why = f"the TLS handshake did not end within {tls_timeout:g} s of connecting"
    return Unreachable(why)


@asynccontextmanager
async def _attended(timeout: float) -> AsyncIterator[Callable[[float], None]]:
    """Limit the time of a block; time that the loop spends elsewhere hardly counts.

    A burst of new streams keeps the loop from a connection that the kernel has long accepted. One
    timer of 250 ms would give it up unseen, and blame the server. Each of several short steps lets
    the loop look at its sockets.

    Args:
        timeout: seconds, while the loop has time.

    Yields:
        A function that begins anew, with another number of seconds.

    Raises:
        TimeoutError: the time is over.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle | None = None
    async with asyncio.timeout(None) as limit:

        def begin(seconds: float) -> None:
            if timer is not None:
                timer.cancel()
            count(_STEPS, seconds / _STEPS)

        def count(steps: int, pause: float) -> None:
            nonlocal timer
            if steps:
                timer = loop.call_later(pause, count, steps - 1, pause)
            else:
                limit.reschedule(loop.time())

        begin(timeout)
        try:
            yield begin
        finally:
            assert timer is not None, "it has begun"
            timer.cancel()


def client_tls(protocol: str, ca: Path | None = None) -> ssl.SSLContext:
    """Make the client's side of TLS: the certificate must be valid, and the host's.

    Args:
        protocol: the only one in ALPN (RFC 7301), such as ``h2``.
        ca: a file of roots, PEM, in place of the system's (or ``SSL_CERT_FILE``'s); None for those.

    Raises:
        OSError: the file cannot be read; an ``ssl.SSLError`` if it holds no certificate.
    """
    context = ssl.create_default_context(cafile=ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # Debian's Python 3.14 has none
    context.set_alpn_protocols([protocol])
    return context


def without_tls(error: ssl.SSLError) -> Unreachable:
    """Make the error for a failed TLS handshake; it says whether a later one may succeed."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Untrusted(error.verify_message, wrong=_WRONG.get(error.verify_code, "root"))
    reason = error.reason or "no reason is given"
    if reason in _CLEARTEXT:
        return Unreachable(
            f"the server does not speak TLS on this port ({reason}): the URL must begin with "
            "http://, or have the server's TLS port",
            passing=False,
        )
    cut = isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return Unreachable(f"the TLS handshake with the server failed: {reason}", passing=cut)


def _check_descriptors(error: OSError) -> None:
    if error.errno in NO_DESCRIPTOR:
        raise OutOfDescriptors(os.strerror(error.errno)) from None


def _try_descriptor() -> None:
    """Raise OutOfDescriptors if this process can open no descriptor; the resolver could not either.

    The resolver's own error then depends on the machine's name services; some give EBUSY.
    """
    try:
        socket.socket().close()
    except OSError as error:
        _check_descriptors(error)
