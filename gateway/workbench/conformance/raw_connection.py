"""One TCP connection to the container, and HTTP on it. Every byte is recorded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import h11

from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance.evidence import NotedExchange, shown
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.limits import MAX_INTERIM_RESPONSES

#: Seconds for an answer whose time no clause limits.
PATIENCE: Final = 10.0
#: Seconds for a connection. A container that never accepts fills its backlog, and then the system
#: tries for minutes.
CONNECT_TIMEOUT: Final = 5.0
#: Bytes per second that the slowest container takes and sends back. Longer messages get more time.
SLOWEST: Final = 1 << 20
#: Most bytes of an answer's body, and most pieces: a piece costs more than a byte.
MAX_BODY: Final = 16 << 20
MAX_PIECES: Final = 100_000

_INTERIM: Final = "send the answer after its interim responses (100 to 199), or send none of these"

_READ = 1 << 16


def patience_with(size: int) -> float:
    """Seconds for ``size`` bytes to be taken, or to come back."""
    return PATIENCE + size // SLOWEST


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP response.

    Attributes:
        headers: names, in lower case, and values.
        chunks: the pieces of the body, each with the number of the read that brought it.
        after: seconds from the request to the response's end.
    """

    status: int
    reason: str
    headers: Mapping[str, str]
    body: bytes
    chunks: tuple[tuple[int, bytes], ...]
    after: float

    @property
    def chunked(self) -> bool:
        """Whether the response was sent in chunks: its head names no length."""
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    def __str__(self) -> str:
        body = f", body {shown(self.body)}" if self.body else ", without a body"
        return f"{self.status} {self.reason}{body}"


class Link:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, exchange: NotedExchange
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.exchange = exchange
        #: Whether the container has ended the connection, and whether it has sent a Close before.
        self.ended = False
        self.said_close = False
        #: Whether the connection ended by a reset.
        self.reset = False

    async def send(self, data: bytes, what: str, shown: bytes | None = None, head: int = 0) -> None:
        """Write bytes, and wait until most of them are taken.

        Args:
            shown: bytes for the record in place of ``data``: a mask hides a frame's payload.
            head: how many of the bytes are an HTTP head.

        Raises:
            Broken: the container does not take the bytes, or has left.
        """
        self.exchange.note("sent", what, data if shown is None else shown, head)
        patience = patience_with(len(data))
        try:
            self.writer.write(data)
            async with asyncio.timeout(patience):
                await self.writer.drain()
        except TimeoutError:
            raise Broken(f"{what}: the container did not read it within {patience:g} s") from None
        except OSError as error:
            raise Broken(f"{what}: the connection is gone ({error})") from None

    async def read(self, timeout: float) -> bytes:
        """Read the next bytes; b"" at the end of the connection.

        Raises:
            TimeoutError: nothing came, or no time is left: bytes that always come end no wait.
        """
        if timeout <= 0:
            raise TimeoutError
        async with asyncio.timeout(timeout):
            try:
                data = await self.reader.read(_READ)
            except OSError as error:
                self.ended = self.reset = True
                self.exchange.note("received", f"reset: {error}")
                return b""
        if not data:
            self.ended = True
            self.exchange.note("received", "end of the connection")
        return data

    def abort(self) -> None:
        self.exchange.note("sent", "the connection is cut")
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self.writer.wait_closed()


@asynccontextmanager
async def link_to(address: Address, exchange: NotedExchange) -> AsyncIterator[Link]:
    """Connect; the connection is closed at the block's end.

    Raises:
        Broken: nothing listens at the address, or the connection is not accepted in time.
    """
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            reader, writer = await asyncio.open_connection(address.host, address.port)
    except TimeoutError:
        raise Broken(
            f"{address} did not accept a connection within {CONNECT_TIMEOUT:g} s"
        ) from None
    except OSError as error:
        raise Broken(f"nothing accepts connections at {address}: {error.strerror}") from None
    link = Link(reader, writer, exchange)
    try:
        yield link
    finally:
        await link.close()


def request_head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [
        f"{method} {target} HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode()


async def ask(
    link: Link,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes = b"",
    timeout: float = PATIENCE,
    spelled: Callable[[str], str] = str,
) -> HttpAnswer:
    """Send one request and read its answer.

    Args:
        target: path and query.
        headers: headers beside Host and Content-Length.
        timeout: seconds for the whole answer.
        spelled: changes the spelling of each header's name, such as ``str.lower``.

    Raises:
        Broken: the answer is not HTTP, is cut, or does not come.
    """
    sent = {"Host": "container", **headers}
    if body or method == "POST":
        sent["Content-Length"] = str(len(body))
    began = time.monotonic()
    head = request_head(method, target, {spelled(name): value for name, value in sent.items()})
    await link.send(head + body, f"{method} {target}", head=len(head))
    try:
        answer = await read_answer(link, method, began, timeout)
    except h11.RemoteProtocolError as error:
        raise Broken(not_http(f"the answer to {method} {target}", link, error)) from None
    except TimeoutError:
        raise Broken(
            f"{method} {target}: the container sent no complete answer within {timeout:g} s; it "
            "must send the head and the whole body in that time"
        ) from None
    body_note = f", {len(answer.body)} bytes in {len(answer.chunks)} pieces" if answer.body else ""
    link.exchange.note("received", f"{answer.status} {answer.reason}{body_note}", answer.body)
    return answer


async def read_answer(
    link: Link, method: str, began: float, timeout: float, read: bytes = b""
) -> HttpAnswer:
    """Read an answer whose request was sent at ``began``.

    Args:
        began: the time of the request, by ``time.monotonic()``.
        timeout: seconds from then to the answer's end.
        read: bytes of the answer that have been read already.

    Raises:
        Broken: the answer is too long, the connection ended before it, or only interim responses
            came.
        h11.RemoteProtocolError: the answer is not HTTP.
        TimeoutError: the answer does not come in time.
    """
    parser = h11.Connection(h11.CLIENT)
    parser.send(h11.Request(method=method, target="/", headers=[("Host", "container")]))
    parser.send(h11.EndOfMessage())
    if read:
        parser.receive_data(read)
    head: h11.Response | None = None
    chunks: list[tuple[int, bytes]] = []
    size = interim = reads = 0
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            parser.receive_data(await link.read(began + timeout - time.monotonic()))
            reads += 1
        elif isinstance(event, h11.Response):
            _note_head(link, event)
            head = event
        elif isinstance(event, h11.InformationalResponse):
            interim += 1
            _check_interim(interim, event, method)
        elif isinstance(event, h11.Data):
            chunks.append((reads, bytes(event.data)))
            size += len(event.data)
            if size > MAX_BODY:
                raise Broken(f"the answer to {method} has more than {MAX_BODY} bytes")
            if len(chunks) > MAX_PIECES:
                raise Broken(f"the answer to {method} comes in more than {MAX_PIECES} pieces")
        elif isinstance(event, h11.EndOfMessage):
            break
        elif isinstance(event, h11.ConnectionClosed):
            raise Broken(f"the connection ended without an answer to {method}")
        elif event is h11.PAUSED:
            break
    assert head is not None, "its end comes after it"
    return HttpAnswer(
        status=head.status_code,
        reason=head.reason.decode("latin-1"),
        headers={name.decode(): value.decode("latin-1") for name, value in head.headers},
        body=b"".join(data for _, data in chunks),
        chunks=tuple(chunks),
        after=time.monotonic() - began,
    )


def _note_head(link: Link, event: h11.Response) -> None:
    if event.http_version not in (b"1.0", b"1.1"):
        version = event.http_version.decode("ascii")
        raise h11.RemoteProtocolError(f"HTTP/{version} was given; it must be HTTP/1.1")
    raw = _response_head(event)
    link.exchange.note("received", f"the head of an answer, {event.status_code}", raw, len(raw))


def _check_interim(count: int, event: h11.InformationalResponse, method: str) -> None:
    if count > MAX_INTERIM_RESPONSES:
        raise Broken(
            f"more than {MAX_INTERIM_RESPONSES} interim responses came, and no answer to {method}; "
            f"the last was {event.status_code}",
            _INTERIM,
        )


def _response_head(event: h11.Response) -> bytes:
    """Rebuild a head as it came, except for white space that means nothing."""
    first = b"HTTP/%s %d %s" % (event.http_version, event.status_code, event.reason)
    fields = (b"%s: %s" % field for field in event.headers.raw_items())
    return b"\r\n".join((first, *fields, b"", b""))


def not_http(what: str, link: Link, error: h11.RemoteProtocolError) -> str:
    """Describe the bytes that came in place of an HTTP answer."""
    if link.ended and any(step.what.startswith("the head") for step in link.exchange.steps):
        return f"{what} began, and the connection ended before the end of its body"
    if link.ended:
        return f"the connection ended instead of {what}"
    return f"{what} is not HTTP: {error}"
