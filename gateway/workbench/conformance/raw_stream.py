"""A stream to the container for checks, which may choose every byte that is sent."""

from __future__ import annotations

import asyncio
import base64
import os
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import h11
from websockets.utils import apply_mask

from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.raw_connection import (
    PATIENCE,
    HttpAnswer,
    Link,
    not_http,
    read_answer,
    request_head,
)
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.close_codes import NO_STATUS, Close, encode_close
from partway.protocol.websocket.frame_decoder import FrameDecoder, FrameError, decode_close
from partway.protocol.websocket.frames import Frame, Opcode
from partway.protocol.websocket.handshake import accept_key

#: Most bytes of a frame and of a message, and of the head of an answer to an upgrade.
MAX_FRAME: Final = 32 << 20
MAX_HEAD: Final = 1 << 16
#: Seconds between two pieces of a head, so that even a busy container reads the first by itself.
#: Only the container could tell that it has.
_BETWEEN_PIECES = 0.1

#: Most Pongs of a stream; no check sends a hundredth as many Pings.
MAX_PONGS: Final = 10_000

_ILL_FRAMED = "correct the frames that the container writes, or let a WebSocket library write them"
#: Remedies for known faults, by words of the decoder's message.
_FRAMING: Final = {
    "unknown opcode": "use only the opcodes 1 (text), 2 (binary), 0 (continuation), 8 (Close), "
    "9 (Ping) and 10 (Pong)",
    "at most 125 bytes": "send the Ping's payload back unchanged, with nothing before or after it: "
    "a Pong, a Ping and a Close have at most 125 bytes",
    "control frame is fragmented": "set FIN (0x80 in the first byte) on each Ping, Pong and Close",
    "RSV bit": "switch compression off: no extension was agreed on, so RSV1 to RSV3 must be 0",
    "is masked": "write frames without a mask: in a server's frames the mask bit (0x80 in the "
    "second byte) is 0",
    "close code": "send the codes 1000 to 1003, 1007 to 1014 and 3000 to 4999, or an empty "
    "Close; answer any other code with 1002",
    "UTF-8": "send bytes that are not UTF-8 as a binary message",
}
_PONGS: Final = "send one Pong for each Ping, and no other Pong"
_ENDLESS: Final = "end each message: its last frame, or its only one, has FIN=1"
#: Remedies for a 101 that does not grant a WebSocket.
_UPGRADE = (
    "answer with Upgrade: websocket and Connection: Upgrade; a proxy in between may drop these "
    "headers"
)
_ACCEPT = (
    "compute Sec-WebSocket-Accept for each request: base64 of the SHA-1 of its Sec-WebSocket-Key "
    "followed by 258EAFA5-E914-47DA-95CA-C5AB0DC85B11 (RFC 6455 §4.2.2)"
)
_UNOFFERED: Final = {
    "sec-websocket-extensions": "answer with an extension only if the request offers it: switch "
    "compression off (websockets: compression=None; aiohttp: compress=False)",
    "sec-websocket-protocol": "answer with a subprotocol only if the request offers it",
}
_NAMES = {opcode: opcode.name.lower() for opcode in Opcode}


class Closed(Exception):
    """The container has closed the stream; ``close`` is None if it sent no Close."""

    def __init__(self, close: Close | None) -> None:
        self.close = close
        if close is None:
            super().__init__("the connection ended without a Close")
        else:
            reason = f" {close.reason!r}" if close.reason else ""
            super().__init__(f"Close {close.code or 'without a code'}{reason}")


def frame_bytes(
    opcode: int,
    payload: bytes = b"",
    *,
    fin: bool = True,
    rsv: int = 0,
    masked: bool = True,
    key: bytes | None = None,
) -> bytes:
    """Make a client's frame, right or wrong (RFC 6455 §5.2).

    Args:
        opcode: 0 to 15.
        payload: before it is masked.
        rsv: the three RSV bits as a number, RSV1 being 4.
        key: the mask's four bytes; None for random ones.
    """
    first, mask_bit = fin << 7 | rsv << 4 | opcode, 0x80 if masked else 0
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", first, mask_bit | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", first, mask_bit | 126, size)
    else:
        head = struct.pack("!BBQ", first, mask_bit | 127, size)
    if not masked:
        return head + payload
    key = os.urandom(4) if key is None else key
    return head + key + apply_mask(payload, key)


def as_frame(message: str | bytes) -> tuple[Opcode, bytes]:
    if isinstance(message, str):
        return Opcode.TEXT, message.encode()
    return Opcode.BINARY, message


def _in_words(opcode: Opcode, payload: bytes, fin: bool) -> str:
    if opcode is Opcode.CLOSE:
        code = int.from_bytes(payload[:2], "big") if len(payload) > 1 else "without a code"
        reason = payload[2:].decode("utf-8", "replace")
        return f"Close {code} {reason!r}" if reason else f"Close {code}"
    return f"{_NAMES[opcode]}{' FIN' if fin else ', no FIN'}, {len(payload)} bytes"


class Peer:
    """A stream to the container, after its handshake.

    Frames that break RFC 6455 raise :class:`Broken`, whichever call meets them.

    Attributes:
        pongs: payloads of the Pongs so far.
        unasked: how many messages came while :meth:`pong` waited.
        head: the head of the 101.
    """

    def __init__(self, link: Link, head: Mapping[str, str], read: bytes) -> None:
        self.head = head
        self.pongs: list[bytes] = []
        self.unasked = 0
        self.link = link
        self.exchange = link.exchange
        self._decoder = FrameDecoder(masked=False, max_payload=MAX_FRAME, check_text=True)
        self._decoder.feed(read)
        self._begun: tuple[Opcode, bytearray] | None = None
        self._over = False
        self._said_close = False
        self._behind_close = 0

    @property
    def unfinished(self) -> int:
        """Bytes of a message whose end has not come."""
        return len(self._begun[1]) if self._begun is not None else 0

    # --- Sending ---------------------------------------------------------------------------------

    async def send(self, opcode: int, payload: bytes = b"", *, fin: bool = True) -> None:
        """Send a frame as RFC 6455 asks of a client."""
        self._said_close |= opcode == Opcode.CLOSE
        what = _in_words(Opcode(opcode), payload, fin)
        await self.link.send(frame_bytes(opcode, payload, fin=fin), what, payload)

    async def send_raw(self, data: bytes, what: str) -> None:
        await self.link.send(data, what)

    async def say(self, message: str | bytes) -> None:
        await self.send(*as_frame(message))

    async def ping(self, payload: bytes) -> None:
        await self.send(Opcode.PING, payload)

    async def send_close(self, code: int | None = None, reason: str = "") -> None:
        await self.send(Opcode.CLOSE, encode_close(Close(code, reason)))

    # --- Receiving -------------------------------------------------------------------------------

    async def frame(self, timeout: float = PATIENCE) -> Frame:
        """Read the next frame, of any kind.

        Raises:
            Closed: the connection ended instead.
            TimeoutError: nothing came.
            Broken: the bytes that came break RFC 6455.
        """
        deadline = time.monotonic() + timeout
        try:
            while (frame := self._next()) is None:
                data = await self.link.read(deadline - time.monotonic())
                if not data:
                    raise Closed(None)
                self._decoder.feed(data)
        except FrameError as error:
            reason = (
                "a frame is masked; only a client may mask its frames"
                if ("unmasked" in error.reason)
                else error.reason
            )
            last = next((each for each in self.exchange.steps[::-1] if each.side == "sent"), None)
            after = f"after {last.what} " if last is not None else ""
            raise Broken(
                f"{after}the container broke RFC 6455: {reason}",
                next((do for what, do in _FRAMING.items() if what in reason), _ILL_FRAMED),
            ) from None
        self.exchange.note(
            "received", _in_words(frame.opcode, frame.payload, frame.fin), frame.payload
        )
        return frame

    def _next(self) -> Frame | None:
        held = self._decoder.buffered_bytes
        frame = self._decoder.next_frame()
        if frame is not None and frame.opcode is Opcode.CLOSE:
            self.link.said_close = True
            # The decoder drops bytes behind a Close, which mean nothing. They are a fault all the
            # same.
            self._behind_close = held - 2 - len(frame.payload)
        return frame

    async def message(self, timeout: float = PATIENCE) -> str | bytes:
        """Read the next whole message. Pings are answered, Pongs are kept in :attr:`pongs`.

        Raises:
            Closed: the container sent a Close, which is answered, or the connection ended.
            TimeoutError: no whole message came.
            Broken: the bytes that came break RFC 6455.
        """
        deadline = time.monotonic() + timeout
        while True:
            frame = await self.frame(deadline - time.monotonic())
            message = await self.take(frame)
            if message is not None:
                return message

    async def take(self, frame: Frame) -> str | bytes | None:
        """Handle a frame as a client does; return the message that it ends, or None."""
        opcode, payload, fin = frame
        if opcode is Opcode.PING:
            await self.send(Opcode.PONG, payload)
        elif opcode is Opcode.PONG:
            if len(self.pongs) == MAX_PONGS:
                raise Broken(f"the container sent more than {MAX_PONGS} Pongs", _PONGS)
            self.pongs.append(payload)
        elif opcode is Opcode.CLOSE:
            close = decode_close(payload)
            self._over = True
            if not self._said_close:  # a second Close would meet a closed socket, and be reset
                with suppress(Broken):  # the container may have left already
                    await self.send(Opcode.CLOSE, payload[:2])
            raise Closed(close)
        else:
            if self._begun is None:
                self._begun = opcode, bytearray()
            kind, whole = self._begun
            if len(whole) + len(payload) > MAX_FRAME:
                raise Broken(
                    f"a message of the container has more than {MAX_FRAME} bytes", _ENDLESS
                )
            whole += payload
            if fin:
                self._begun = None
                return whole.decode() if kind is Opcode.TEXT else bytes(whole)
        return None

    async def pong(self, timeout: float = PATIENCE) -> bytes:
        """Return the payload of the next Pong; messages before it are counted and dropped."""
        deadline = time.monotonic() + timeout
        had = len(self.pongs)
        while len(self.pongs) == had:
            message = await self.take(await self.frame(deadline - time.monotonic()))
            self.unasked += message is not None
        return self.pongs[-1]

    async def closed(self, timeout: float = PATIENCE) -> Close | None:
        """Wait for the container's Close; None if the connection ended without a Close.

        Raises:
            TimeoutError: the stream went on.
        """
        deadline = time.monotonic() + timeout
        try:
            while True:
                await self.message(deadline - time.monotonic())
        except Closed as closed:
            return closed.close

    async def leave(self, timeout: float) -> bool:
        """Close the stream as a client does, if it is open, and wait a little for the answer.

        Returns:
            Whether the stream is over; False if no answer came in time.
        """
        if self._over or self.link.ended or self.link.writer.is_closing():
            return True
        try:
            await self.send_close(1000)
            await self.closed(timeout)
        except TimeoutError:
            return False
        except Broken:
            pass
        return True

    async def rest(self, timeout: float = PATIENCE) -> int:
        """Count bytes behind both Closes, until the container ends TCP (RFC 6455 §7.1.1).

        Raises:
            TimeoutError: the container does not end the connection.
        """
        deadline = time.monotonic() + timeout
        rest = self._behind_close
        while data := await self.link.read(deadline - time.monotonic()):
            rest += len(data)
        return rest


@dataclass(frozen=True, slots=True)
class NotGranted:
    answer: HttpAnswer


def in_one_piece(head: bytes) -> tuple[bytes, ...]:
    return (head,)


async def upgrade(
    link: Link,
    target: str,
    headers: Mapping[str, str],
    timeout: float = PATIENCE,
    written: Callable[[bytes], Iterable[bytes]] = in_one_piece,
) -> Peer | NotGranted:
    """Ask for a stream.

    Args:
        target: path and query.
        headers: further headers, or other values of the usual ones.
        timeout: seconds for the answer.
        written: splits or changes the usual head into the pieces to send.

    Raises:
        Broken: the answer is neither a 101 as RFC 6455 §4.1 asks for it nor another HTTP answer.
    """
    key = base64.b64encode(os.urandom(16)).decode()
    sent = {
        "Host": "container",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        **headers,
    }
    began = time.monotonic()
    what = f"GET {target}, asking for a WebSocket"
    for number, piece in enumerate(written(request_head("GET", target, sent))):
        if number:
            await asyncio.sleep(_BETWEEN_PIECES)
        await link.send(piece, f"piece {number + 1} of it" if number else what, head=len(piece))
    read = b""
    try:
        while b"\r\n\r\n" not in read:
            data = await link.read(began + timeout - time.monotonic())
            if not data:
                before = f"; before that came {shown(read)}" if read else ""
                raise Broken(f"the connection ended without an answer to the upgrade{before}")
            read += data
            if len(read) > MAX_HEAD:
                raise Broken("the answer to the upgrade has a head of more than 64 KiB")
    except TimeoutError:
        raise Broken(f"no answer to the upgrade within {timeout:g} s") from None
    head, _, rest = read.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    link.exchange.note("received", status, read, len(head) + 4)
    if not status.startswith("HTTP/1.1 101"):
        return NotGranted(await _refusal(link, read, began, timeout))
    fields = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines)
    }
    _check_101(fields, key)
    return Peer(link, fields, rest)


async def _refusal(link: Link, read: bytes, began: float, timeout: float) -> HttpAnswer:
    try:
        return await read_answer(link, "GET", began, timeout, read)
    except h11.RemoteProtocolError as error:
        raise Broken(not_http("the answer to the upgrade", link, error)) from None
    except TimeoutError:
        raise Broken(
            f"the container sent no complete answer to the upgrade within {timeout:g} s; it must "
            "send the head and the whole body in that time"
        ) from None


def _check_101(fields: Mapping[str, str], key: str) -> None:
    if fields.get("upgrade", "").lower() != "websocket":
        raise Broken(f"the 101 has {_field(fields, 'Upgrade')}, not websocket", _UPGRADE)
    if "upgrade" not in fields.get("connection", "").lower():
        raise Broken(f"the 101 has {_field(fields, 'Connection')}, not Upgrade", _UPGRADE)
    if fields.get("sec-websocket-accept") != accept_key(key):
        raise Broken(
            f"the 101 has {_field(fields, 'Sec-WebSocket-Accept')}; for the request's key {key!r} "
            f"it must be {accept_key(key)!r}",
            _ACCEPT,
        )
    for name, remedy in _UNOFFERED.items():
        if name in fields:
            raise Broken(f"the 101 has {name}: {fields[name]!r}, which was not offered", remedy)


def _field(fields: Mapping[str, str], name: str) -> str:
    value = fields.get(name.lower())
    return f"no {name}" if value is None else f"{name}: {value!r}"


def code_of(close: Close | None) -> int:
    """The code of a Close: 1005 for a Close without a code, 1006 where there was no Close."""
    if close is None:
        return 1006
    return close.code if close.code is not None else NO_STATUS
