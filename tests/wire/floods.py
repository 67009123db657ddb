"""Floods of HTTP/2 frames, made with hyperframe and hpack: what an attacker says, as bytes.

A flood is a function of an :class:`Attacker`; it yields pieces of bytes, so many frames in all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from tests.event_factory import part

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
INITIAL_WINDOW = SettingsFrame.INITIAL_WINDOW_SIZE
LARGEST_WINDOW = 2**31 - 1
#: The longest payload of a frame that every server takes (RFC 9113 §4.2).
FRAME = 16_384

#: Of a type that no RFC has given out.
_UNKNOWN = b"\x00\x00\x00\xfa\x00\x00\x00\x00\x00"
_GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + bytes(8)
#: GET http://a/ in literals and the static table; the next entry of the own one is 62, 0xbe.
_ROOT = b"\x82\x86\x84\x01\x01a"
#: The smallest event that is a part.
_TINY_EVENT = part(b"", None, None, content_type=None)
#: One that is never sent to its end.
_LARGE_EVENT = part(bytes(1 << 20))
#: Frames in one piece.
_PER_PIECE = 200

Pieces = Callable[["Attacker", int], Iterator[bytes]]


def raw(*frames: Frame) -> bytes:
    return b"".join(frame.serialize() for frame in frames)


class Attacker:
    """What a client has to remember to go on speaking: its stream ids and its compressor.

    Args:
        stream_path: ``:path`` that opens a bidirectional stream.
    """

    def __init__(self, stream_path: str) -> None:
        self.stream_path = stream_path
        self.encoder = Encoder()
        self.last_id = -1

    def opening(self, settings: Mapping[int, int]) -> bytes:
        """The preface, and our settings."""
        return PREFACE + raw(SettingsFrame(0, settings=dict(settings)))

    def post(self) -> bytes:
        """Opens a bidirectional stream."""
        more = ("content-type", "application/vnd.amazon.eventstream")
        return self.headers(self._fields("POST", self.stream_path, more))

    def get(self, path: str = "/healthz") -> bytes:
        return self.request("GET", path)

    def request(self, method: str, path: str, *more: tuple[str, str]) -> bytes:
        """A whole request without a body, with more headers."""
        return self.headers(self._fields(method, path, *more), end=True)

    def _fields(self, method: str, path: str, *more: tuple[str, str]) -> bytes:
        """A request's block of headers; what was said before is said again in a byte."""
        pseudo = [(":method", method), (":scheme", "http"), (":authority", "a"), (":path", path)]
        return self.encoder.encode([*pseudo, *more])

    def headers(self, block: bytes, *, end: bool = False) -> bytes:
        """A block of headers on a new stream, in CONTINUATION frames from 16 KiB on."""
        self.last_id += 2
        pieces = [block[at : at + FRAME] for at in range(0, len(block), FRAME)]
        frames: list[Frame] = [HeadersFrame(self.last_id, pieces[0])]
        frames += [ContinuationFrame(self.last_id, piece) for piece in pieces[1:]]
        frames[-1].flags.add("END_HEADERS")
        if end:
            frames[0].flags.add("END_STREAM")
        return raw(*frames)


def _each(make: Callable[[Attacker], bytes], joined: int = _PER_PIECE) -> Pieces:
    """One after another, as the ids of their streams go up."""

    def pieces(attacker: Attacker, count: int) -> Iterator[bytes]:
        for at in range(0, count, joined):
            yield b"".join(make(attacker) for _ in range(min(joined, count - at)))

    return pieces


def _again(make: Callable[[Attacker], bytes], joined: int = _PER_PIECE) -> Pieces:
    def pieces(attacker: Attacker, count: int) -> Iterator[bytes]:
        one = make(attacker)
        for _ in range(0, count, joined):
            yield one * joined

    return pieces


def _never_ending(piece: bytes) -> Pieces:
    def pieces(attacker: Attacker, count: int) -> Iterator[bytes]:
        attacker.last_id += 2
        yield raw(HeadersFrame(attacker.last_id, piece))
        one = raw(ContinuationFrame(attacker.last_id, piece))
        joined = max(1, min(_PER_PIECE, 65_536 // len(one)))
        for _ in range(0, count, joined):
            yield one * joined

    return pieces


def _indexed(name: bytes, value: bytes, references: int) -> Pieces:
    """Requests that refer to one entry of the table again and again, a byte each."""

    def pieces(attacker: Attacker, count: int) -> Iterator[bytes]:
        yield attacker.headers(_ROOT + b"\x40" + _string(name) + _string(value), end=True)
        block = _ROOT + b"\xbe" * references
        joined = max(1, 8192 // len(block))
        for _ in range(0, count, joined):
            yield b"".join(attacker.headers(block, end=True) for _ in range(joined))

    return pieces


def _string(text: bytes) -> bytes:
    """A string literal of HPACK (RFC 7541 §5.2), not Huffman's."""
    if len(text) < 127:
        return bytes((len(text),)) + text
    rest, out = len(text) - 127, bytearray(b"\x7f")
    while rest >= 128:
        out.append(rest % 128 + 128)
        rest //= 128
    return bytes(out) + bytes((rest,)) + text


def _settings_to_and_fro(attacker: Attacker, count: int) -> Iterator[bytes]:
    pair = raw(SettingsFrame(0, {INITIAL_WINDOW: 0}), SettingsFrame(0, {INITIAL_WINDOW: 1}))
    for _ in range(0, count, 10):
        yield pair * 5


def _dribbled(attacker: Attacker, count: int) -> Iterator[bytes]:
    frame = attacker.headers(_ROOT + b"\x00\x01a" + _string(b"x" * 16_000))
    for at in range(min(count, len(frame) - 1)):
        yield frame[at : at + 1]
    yield frame[count:]


class Flood(NamedTuple):
    """One attack.

    Attributes:
        pieces: yields bytes, given how many frames there are to be.
        before: streams that it opens first, by the same client.
        window: INITIAL_WINDOW_SIZE of the client.
        mute: a block of headers is under way, and nothing else may be said meanwhile.
        paced: each piece goes out by itself; TCP must not join them.
        spends: it is DATA on its last stream, of which no more may come than the window allows.
    """

    pieces: Pieces
    before: Callable[[Attacker], bytes] | None = None
    window: int = 65_535
    mute: bool = False
    paced: bool = False
    spends: bool = False


def _on_one_stream(frame: Callable[[int], Frame], joined: int = _PER_PIECE, **more: bool) -> Flood:
    """Frames on a bidirectional stream that is opened for them."""
    return Flood(_again(lambda a: raw(frame(a.last_id)), joined), Attacker.post, **more)


#: Every flood by its name. What it is worth is in ``docs/discussion/security.md``.
FLOODS: Mapping[str, Flood] = MappingProxyType(
    {
        "rapid reset": Flood(_each(lambda a: a.post() + raw(RstStreamFrame(a.last_id, 8)))),
        "rapid reset of GET": Flood(_each(lambda a: a.get() + raw(RstStreamFrame(a.last_id, 8)))),
        "DATA on half-closed": Flood(_each(lambda a: a.get() + raw(DataFrame(a.last_id, b"x")))),
        "DATA on closed": Flood(_again(lambda a: raw(DataFrame(a.last_id))), Attacker.get),
        "window overflow": Flood(
            _each(lambda a: a.post() + raw(WindowUpdateFrame(a.last_id, LARGEST_WINDOW)))
        ),
        "GET /healthz": Flood(_each(Attacker.get, 50)),
        "GET /metrics": Flood(_each(lambda a: a.get("/metrics"), 50)),
        "GET /metrics, no window": Flood(_each(lambda a: a.get("/metrics"), 50), window=0),
        "too many streams": Flood(
            _each(Attacker.get), lambda a: b"".join(a.get() for _ in range(999)), window=0
        ),
        "CONTINUATION, empty": Flood(_never_ending(b""), mute=True),
        "CONTINUATION, 16 KiB": Flood(_never_ending(bytes(FRAME)), mute=True),
        "CONTINUATION, ending": Flood(
            _each(lambda a: a.headers(_ROOT + b"\x00\x01a" + _string(bytes(70_000)), end=True), 1)
        ),
        "headers of 60 KiB": Flood(
            _each(lambda a: a.headers(_ROOT + b"\x00\x01a" + _string(b"x" * 60_000), end=True), 1)
        ),
        "headers of 15 KiB": Flood(
            _each(lambda a: a.headers(_ROOT + b"\x00\x01a" + _string(b"x" * 15_000), end=True), 1)
        ),
        "headers of 2 bytes": Flood(
            _each(lambda a: a.headers(_ROOT + b"\x0f\x02\x00" * 320, end=True), 5)
        ),
        "table sizes": Flood(_each(lambda a: a.headers(b"\x20" * 16_000 + _ROOT, end=True), 1)),
        "indexed, small": Flood(_indexed(b"a", b"", 480)),
        "indexed, 60 KiB": Flood(_indexed(b"a", b"", 1900)),
        "indexed, large": Flood(_indexed(b"a", b"x" * 4000, 3)),
        "indexed, a bomb": Flood(_indexed(b"a", b"x" * 4000, 16_000)),
        "SETTINGS, empty": Flood(_again(lambda a: raw(SettingsFrame(0)))),
        "SETTINGS, windows": Flood(
            _settings_to_and_fro, lambda a: b"".join(a.get() for _ in range(900)), window=0
        ),
        "PING": Flood(_again(lambda a: raw(PingFrame(0, b"12345678")))),
        "PRIORITY": Flood(_again(lambda a: raw(PriorityFrame(1, depends_on=0)))),
        "unknown type": Flood(_again(lambda a: _UNKNOWN)),
        "GOAWAY": Flood(_again(lambda a: _GOAWAY)),
        "DATA, empty": _on_one_stream(DataFrame),
        "DATA, 1 byte": Flood(
            _again(lambda a: raw(DataFrame(a.last_id, b"x"))),
            lambda a: a.post() + raw(DataFrame(a.last_id, _LARGE_EVENT[:FRAME])),
            spends=True,
        ),
        "DATA, padding": _on_one_stream(
            lambda id: DataFrame(id, pad_length=255, flags=["PADDED"]), 50, spends=True
        ),
        "DATA, tiny events": _on_one_stream(
            lambda id: DataFrame(id, _TINY_EVENT * (FRAME // len(_TINY_EVENT))), 1, spends=True
        ),
        "WINDOW_UPDATE, stream": _on_one_stream(lambda id: WindowUpdateFrame(id, 1)),
        "WINDOW_UPDATE, shared": Flood(
            _again(lambda a: raw(WindowUpdateFrame(0, 1)), 1),
            lambda a: b"".join(a.get() for _ in range(900)),
            window=0,
            paced=True,
        ),
        "dribbled header": Flood(_dribbled, mute=True, paced=True),
    }
)
