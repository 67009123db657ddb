"""Strict readers of what a server sends, none of them the code under test.

Three judge the same bytes, since each one is strict about something else:

- :mod:`tests.frame_factory` about RSV bits, opcodes, masks and lengths in their shortest form; what
  it leaves to its caller, the order of frames, UTF-8 and the close codes, is looked at here;
- wsproto about all of these but one close code;
- websockets about the same, but for lengths and UTF-8.

Two of them refuse something that is legal, and are forgiven that and nothing else:

- websockets a Close in the middle of a fragmented message (clause 1.5-7);
- wsproto the code 1014, which is younger than it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from websockets.exceptions import ProtocolError
from websockets.frames import Frame as WebsocketsFrame
from websockets.protocol import Protocol, Side
from wsproto.frame_protocol import FrameProtocol, Opcode, ParseFailed

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, RawFrame, read_frames

#: A frame as its opcode, payload and FIN.
Plain = tuple[int, bytes, bool]

#: A whole message or a control frame: what it is, and what is in it.
Event = tuple[str, object]

_NAMES = {TEXT: "text", BINARY: "binary", PING: "ping", PONG: "pong"}


@dataclass(frozen=True)
class Verdict:
    """All that a server has sent, accepted by every judge.

    Attributes:
        frames: in order.
    """

    frames: list[RawFrame]

    @property
    def data(self) -> list[Plain]:
        """The data frames, in order."""
        return [plain(each) for each in self.frames if each.opcode < CLOSE]

    @property
    def pongs(self) -> list[bytes]:
        """The payloads of the Pongs, in order."""
        return [each.payload for each in self.frames if each.opcode == PONG]

    @property
    def close(self) -> tuple[int | None, str]:
        """Code and reason of the Close, which is the last frame."""
        last = self.frames[-1]
        assert last.opcode == CLOSE, f"no Close at the end: {last}"
        return last.close_code, last.close_reason


def judge(received: bytes) -> Verdict:
    """Have all judges read what a server sent up to the end of its connection.

    Raises:
        AssertionError: one of them refuses it, or two disagree.
    """
    frames, rest = read_frames(received)
    assert rest == b"", f"half a frame at the end: {rest[:20]!r}"
    events = _events(frames)
    assert _read_by_websockets(received, frames) == [plain(each) for each in frames]
    assert _read_by_wsproto(received, frames) == events
    return Verdict(frames)


def plain(frame: RawFrame) -> Plain:
    return frame.opcode, frame.payload, frame.fin


# --- The rules that frames have with one another -------------------------------------------------


def _events(frames: Iterable[RawFrame]) -> list[Event]:
    """Messages and control frames, in the order of their ends; each rule of the RFC is a check."""
    events: list[Event] = []
    message: tuple[int, bytes] | None = None
    closed = False
    for each in frames:
        assert not closed, f"behind the Close: {each}"  # §5.5.1
        assert not each.masked, f"masked by a server: {each}"  # §5.1
        if each.opcode == CLOSE:
            closed = True
            events.append(("close", _close(each)))
            continue
        if each.opcode > CLOSE:
            events.append((_NAMES[each.opcode], each.payload))
            continue
        assert (message is None) is (each.opcode != CONTINUATION), f"out of order: {each}"  # §5.4
        opcode, begun = message or (each.opcode, b"")
        message = (opcode, begun + each.payload)
        if each.fin:
            events.append((_NAMES[opcode], _content(*message)))
            message = None
    return events


def _content(opcode: int, payload: bytes) -> str | bytes:
    return payload.decode() if opcode == TEXT else payload  # §8.1


def _close(frame: RawFrame) -> tuple[int | None, str]:
    assert len(frame.payload) != 1, f"one byte is no close code: {frame}"  # §5.5.1
    code = frame.close_code
    assert code is None or code in _LEGAL_CODES, f"close code {code}"  # §7.4
    return code, frame.close_reason


#: RFC 6455 §7.4.1 and IANA's registry, then §7.4.2's ranges.
_LEGAL_CODES = {
    *(1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014),
    *range(3000, 5000),
}


# --- websockets ----------------------------------------------------------------------------------


def _read_by_websockets(received: bytes, frames: list[RawFrame]) -> list[Plain]:
    parser = Protocol(Side.CLIENT, max_size=None)
    parser.receive_data(received)
    read = [
        (int(each.opcode), bytes(each.data), each.fin)
        for each in parser.events_received()
        if isinstance(each, WebsocketsFrame)
    ]
    if _closes_inside_a_message(frames):
        assert isinstance(parser.parser_exc, ProtocolError)
        assert str(parser.parser_exc) == "incomplete fragmented message"
        assert parser.close_rcvd is not None  # it has read the Close before it refuses it
        return [*read, plain(frames[-1])]
    assert parser.parser_exc is None, f"websockets refuses: {parser.parser_exc}"
    return read


def _closes_inside_a_message(frames: list[RawFrame]) -> bool:
    data = [each for each in frames if each.opcode < CLOSE]
    return bool(data) and not data[-1].fin and frames[-1].opcode == CLOSE


# --- wsproto -------------------------------------------------------------------------------------


def _read_by_wsproto(received: bytes, frames: list[RawFrame]) -> list[Event]:
    parser = FrameProtocol(client=True, extensions=[])
    parser.receive_bytes(received)
    events: list[Event] = []
    pieces: list[str | bytes] = []
    refusal = None
    try:
        for each in parser.received_frames():
            if each.opcode is Opcode.CLOSE:
                code, reason = each.payload
                events.append(("close", (None if code == 1005 else int(code), reason)))
            elif each.opcode.iscontrol():
                events.append((_NAMES[each.opcode], bytes(each.payload)))
            else:
                pieces.append(each.payload)
                if each.message_finished:
                    empty = "" if each.opcode is Opcode.TEXT else b""
                    events.append((_NAMES[each.opcode], empty.join(pieces)))
                    pieces = []
    except ParseFailed as error:
        refusal = str(error)
    if frames and frames[-1].opcode == CLOSE and frames[-1].close_code == 1014:
        assert refusal == "CLOSE with unknown reserved code"
        return [*events, ("close", _close(frames[-1]))]
    assert refusal is None, f"wsproto refuses: {refusal}"
    return events
