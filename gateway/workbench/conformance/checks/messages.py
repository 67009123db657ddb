"""Data frames: messages whole and in fragments (clauses 1.2-1 to 1.2-5, 1.3-1, 1.3-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.raw_stream import Peer, as_frame, frame_bytes
from partway.gateway.workbench.conformance.trial import Trial, meanwhile
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

_TEXT, _BINARY, _CONTINUATION = Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION
#: Bytes that a container may take for text, a line or a file.
_TEXT_LIKE = (
    b"plain",
    "grün ".encode(),
    b'{"a": 1}\r\n',
    b" a ",
    b"a\0",
    b"YQ==",
    b"\xef\xbb\xbfa",
)
_KEYS = (bytes(4), b"\x00\x00\x00\x01", b"\xff" * 4, b"\x81\x00\x7f\x0a")
_MANY = 1000
_IN_A_ROW = 20

#: Each part of a stream is one frame, so that a client's PARTIAL parts arrive as fragments.
_PUT_TOGETHER = "join fragments: a frame with FIN=0, then continuations up to one with FIN=1"


async def send_fragments(peer: Peer, opcode: int, fragments: Sequence[bytes]) -> None:
    for number, fragment in enumerate(fragments):
        first, last = number == 0, number == len(fragments) - 1
        await peer.send(opcode if first else _CONTINUATION, fragment, fin=last)


@checks.add(
    "messages.answer",
    "1.1-4",
    title="the model gives the answer that the probe expects",
    remedy="choose a probe that fits the model, with --probe: chat, speech, or a file of your "
    "own; the default probe, echo, expects every message back",
    requires=("upgrade.granted",),
    limit=120,
)
async def answer(trial: Trial) -> None:
    async with trial.stream("the probe") as peer:
        await trial.answered(peer, f"after the probe {trial.probe.name!r}")


@checks.add(
    "messages.text",
    "1.2-1",
    "1.2-2",
    "1.3-1",
    title="text comes back as text, with the same code points",
    remedy="answer text frames with text frames, and keep their UTF-8 unchanged",
    requires=("messages.answer",),
    needs=(Need.ECHO,),
)
async def text(trial: Trial) -> None:
    async with trial.stream("text") as peer:
        message = "Grüße 日本 🌍 \x00 end"
        await peer.say(message)
        await trial.echoed(peer, message, "after a text message")


@checks.add(
    "messages.binary",
    "1.2-2",
    "1.3-1",
    title="bytes come back as a binary message",
    remedy="answer binary frames with binary frames, whatever their content",
    requires=("messages.answer",),
    needs=(Need.ECHO,),
)
async def binary(trial: Trial) -> None:
    async with trial.stream("bytes") as peer:
        for message in (bytes(range(256)), *_TEXT_LIKE):
            await peer.say(message)
            all_of_them = "all 256 bytes" if len(message) == 256 else shown(message)
            await trial.echoed(peer, message, f"after {all_of_them} as a binary message")


@checks.add(
    "messages.mask",
    "1.2-1",
    title="the container unmasks frames with any key, zeros included",
    remedy="unmask each frame with its own key, whatever the key is: the mask bit tells whether "
    "there is a key",
    requires=("messages.binary",),
    needs=(Need.ECHO,),
)
async def mask(trial: Trial) -> None:
    async with trial.stream("masks") as peer:
        message = bytes(range(250, 256)) + b"masked"  # no whole number of keys
        for key in _KEYS:
            frame = frame_bytes(_BINARY, message, key=key)
            await peer.send_raw(frame, f"binary, masked by {key.hex(' ')}")
            await trial.echoed(peer, message, f"after a binary frame masked by {key.hex(' ')}", 3)


@checks.add(
    "messages.empty",
    "1.2-4",
    title="empty messages come back",
    remedy="do not drop an empty frame: an empty part is a message too",
    requires=("messages.text", "messages.binary"),
    needs=(Need.ECHO,),
)
async def empty(trial: Trial) -> None:
    async with trial.stream("empty messages") as peer:
        for message in ("", b""):
            kind = "text" if message == "" else "binary"
            await peer.say(message)
            await trial.echoed(peer, message, f"after an empty {kind} message", 3)


@checks.add(
    "messages.order",
    "1.2-1",
    title="text and binary messages in a row all come back, in their order",
    remedy="answer each message before you read the next, without a task for each: one frame "
    "with FIN is one message, so never merge two",
    requires=("messages.text", "messages.binary"),
    needs=(Need.ECHO,),
)
async def order(trial: Trial) -> None:
    async with trial.stream("messages in a row") as peer:
        # Each is shorter than the one before, which shows a container that answers the shortest
        # first.
        said = [f"message {number} {'.' * 5 * (_IN_A_ROW - number)}" for number in range(_IN_A_ROW)]
        # Both types share one order, and a message that was sent twice has two answers.
        sent = [*said, *(part for each in said for part in (each.encode(), each, each))]
        for message in sent:
            await peer.say(message)
        for number, message in enumerate(sent):
            what = f"as the answer to message {number + 1} of {len(sent)} in a row"
            await trial.echoed(peer, message, what, 3)


@checks.add(
    "messages.fragments",
    "1.2-3",
    title="a message in three fragments is one message",
    remedy=_PUT_TOGETHER,
    requires=("messages.answer",),
    limit=120,
)
async def fragments(trial: Trial) -> None:
    async with trial.stream("fragments") as peer:
        await _ask_in_thirds(trial, peer, "after a text message in three fragments")


async def _ask_in_thirds(trial: Trial, peer: Peer, what: str, pong: bytes | None = None) -> None:
    """Ask the probe's question in three fragments a message, with Pongs between them if given."""
    for message in trial.probe.messages:
        opcode, data = as_frame(message)
        third = len(data) // 3
        for number, piece in enumerate((data[:third], data[third : 2 * third], data[2 * third :])):
            if number and pong is not None:
                await peer.send(Opcode.PONG, pong)
            await peer.send(_CONTINUATION if number else opcode, piece, fin=number == 2)
    if trial.probe.echo:
        for message in trial.probe.messages:
            await trial.echoed(peer, message, what, 3)
    else:
        await _answered(trial, peer)


async def _answered(trial: Trial, peer: Peer) -> None:
    for number in range(trial.probe.replies):
        try:
            await peer.message(trial.probe.timeout)
        except TimeoutError:
            raise Broken(
                f"sent in fragments, the probe's messages got {number} replies within "
                f"{trial.probe.timeout:g} s; the probe expects {trial.probe.replies}"
            ) from None


@checks.add(
    "messages.binary_fragments",
    "1.2-3",
    title="a binary message in fragments is one message",
    remedy=_PUT_TOGETHER,
    requires=("messages.binary", "messages.fragments"),
    needs=(Need.ECHO,),
)
async def binary_fragments(trial: Trial) -> None:
    async with trial.stream("binary fragments") as peer:
        pieces = [b"\x00\x01", b"\xff" * 200, b"\x80"]
        await send_fragments(peer, _BINARY, pieces)
        await trial.echoed(peer, b"".join(pieces), "after a binary message in three fragments", 3)
        await peer.say("and a text")
        await trial.echoed(
            peer, "and a text", "after a text that follows a binary message in fragments", 3
        )


@checks.add(
    "messages.empty_fragments",
    "1.2-4",
    title="a message with empty fragments comes back: at the beginning, in the middle, at the end",
    remedy="end a message at the frame with FIN and at no other, however short the frame is",
    requires=("messages.binary_fragments", "messages.empty"),
    needs=(Need.ECHO,),
)
async def empty_fragments(trial: Trial) -> None:
    async with trial.stream("empty fragments") as peer:
        for pieces in ([b"", b"a", b"", b"b", b""], [b"", b""]):
            whole, named = b"".join(pieces), ", ".join(repr(piece.decode()) for piece in pieces)
            for kind, message in ((_TEXT, whole.decode()), (_BINARY, whole)):
                await send_fragments(peer, kind, pieces)
                what = f"after a {kind.name.lower()} message in the fragments {named}"
                await trial.echoed(peer, message, what, 3)


@checks.add(
    "messages.code_point",
    "1.2-5",
    title="a code point may be split between two fragments",
    remedy="check UTF-8 over the whole message, not fragment by fragment (RFC 6455 §5.6)",
    requires=("messages.text", "messages.fragments"),
    needs=(Need.ECHO,),
)
async def code_point(trial: Trial) -> None:
    async with trial.stream("a split code point") as peer:
        for character in "é€🌍":
            data = character.encode()
            cuts = [[b"a" + data[:at], data[at:] + b"b"] for at in range(1, len(data))]
            for pieces in (*cuts, [bytes([byte]) for byte in f"a{character}b".encode()]):
                await send_fragments(peer, _TEXT, pieces)
                what = (
                    f"after a text in the fragments {', '.join(each.hex(' ') for each in pieces)}"
                )
                await trial.echoed(peer, f"a{character}b", what, 3)


@checks.add(
    "messages.many_fragments",
    "1.2-3",
    title=f"a message may have {_MANY} fragments",
    remedy="put no limit on the number of fragments, only on the message's bytes",
    requires=("messages.binary_fragments",),
    needs=(Need.ECHO,),
)
async def many_fragments(trial: Trial) -> None:
    async with trial.stream("many fragments") as peer:
        pieces = [bytes([97 + number % 26]) for number in range(_MANY)]
        whole = b"".join(pieces)
        for kind, message in ((_TEXT, whole.decode()), (_BINARY, whole)):
            what = f"after a {kind.name.lower()} message in {_MANY} fragments of one byte"
            async with meanwhile(send_fragments(peer, kind, pieces)):
                await trial.echoed(peer, message, what)


@checks.add(
    "messages.pings_between",
    "1.3-2",
    "1.4-3",
    title="pings between the fragments of a message do not disturb it",
    remedy="handle control frames between the fragments of a message (RFC 6455 §5.4)",
    requires=("messages.binary_fragments", "messages.code_point", "control.mid_message"),
    needs=(Need.ECHO,),
)
async def pings_between(trial: Trial) -> None:
    async with trial.stream("pings between fragments") as peer:
        for message in ("a 🌍 between", bytes(range(240, 256))):
            kind, data = as_frame(message)
            for number in range(3):  # the first gap is inside the globe
                piece = data[4 * number : 4 * number + 4]
                await peer.send(_CONTINUATION if number else kind, piece, fin=False)
                await peer.ping(f"gap {number}".encode() if number % 2 else b"")
            await peer.send(_CONTINUATION, data[12:])
            what = f"after a {kind.name.lower()} message with Pings between its fragments"
            await trial.echoed(peer, message, what, 3)


@checks.add(
    "messages.pongs_between",
    "1.3-2",
    "1.4-3",
    title="unsolicited Pongs between the fragments of a message do not disturb it",
    remedy="ignore a Pong wherever it comes, inside a message too (RFC 6455 §5.4 and §5.5.3)",
    requires=("messages.fragments", "control.unsolicited"),
    limit=120,
)
async def pongs_between(trial: Trial) -> None:
    for payload in (b"unasked", b""):
        name = "Pongs" if payload else "empty Pongs"
        async with trial.stream(f"{name} between fragments") as peer:
            what = f"after a message with {name} between its fragments"
            await _ask_in_thirds(trial, peer, what, payload)
