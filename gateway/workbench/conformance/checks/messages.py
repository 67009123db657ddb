"""Data frames: messages whole and in fragments (clauses 1.2-1 to 1.2-5, 1.3-1, 1.3-2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.link import PATIENCE
from partway.gateway.workbench.conformance.peer import Closed, Peer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.frames import Opcode

checks: Final = Checks()

_TEXT, _BINARY, _CONTINUATION = Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION
_LARGE = bytes(range(256)) * 4096  # 1 MiB
_MANY = 1000
_IN_A_ROW = 20

#: Each part of a stream is one frame, so that a client's PARTIAL parts arrive as fragments.
_PUT_TOGETHER = "join fragments: a frame with FIN=0, then continuations up to one with FIN=1"
_WHOLE = (
    "read a frame up to its length, in as many reads as it takes, and write all of it: no buffer "
    "of yours may cut a message"
)


async def send_fragments(peer: Peer, opcode: int, fragments: Sequence[bytes]) -> None:
    """Send one message, in a frame for each fragment."""
    for number, fragment in enumerate(fragments):
        first, last = number == 0, number == len(fragments) - 1
        await peer.send(opcode if first else _CONTINUATION, fragment, fin=last)


@checks.add(
    "messages.answer",
    "1.1-4",
    title="the model answers what the probe asks",
    remedy="a model that is no echo is told by --probe what to expect: chat, speech, or a file of "
    "yours; an echo sends back what came",
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
    title="text comes back as text, code point by code point",
    remedy="answer text frames by text frames, and keep their UTF-8 as it is",
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
    remedy="answer binary frames by binary frames, whatever is in them",
    requires=("messages.answer",),
    needs=(Need.ECHO,),
)
async def binary(trial: Trial) -> None:
    async with trial.stream("bytes") as peer:
        message = bytes(range(256))
        await peer.say(message)
        await trial.echoed(peer, message, "after all 256 bytes as a binary message")


@checks.add(
    "messages.empty",
    "1.2-4",
    title="empty messages are messages",
    remedy="do not take an empty frame for no frame: an empty part is one",
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
    title=f"{_IN_A_ROW} messages in a row are so many, in their order",
    remedy="answer a message before you take the next, with no task for each: one frame with FIN "
    "is one message, and two are never merged",
    requires=("messages.text",),
    needs=(Need.ECHO,),
)
async def order(trial: Trial) -> None:
    async with trial.stream("messages in a row") as peer:
        # Each is shorter than the one before: who answers the shortest first is seen too.
        sent = [f"message {number} {'.' * 5 * (_IN_A_ROW - number)}" for number in range(_IN_A_ROW)]
        for message in sent:
            await peer.say(message)
        for number, message in enumerate(sent):
            what = f"of {_IN_A_ROW} messages in a row, as the answer to number {number + 1}"
            await trial.echoed(peer, message, what, 3)


@checks.add(
    "messages.large",
    "1.3-3",
    title="a message of 1 MiB in one frame comes back",
    remedy="raise the limit of your WebSocket library (max_size, max_msg_size) to 16 MiB or more",
    requires=("messages.binary",),
    needs=(Need.ECHO,),
)
async def large(trial: Trial) -> None:
    async with trial.stream("1 MiB") as peer:
        await peer.say(_LARGE)
        try:
            reply = await peer.message(PATIENCE)
        except (TimeoutError, Closed) as error:
            came = str(error) or f"within {PATIENCE:g} s nothing whole"
            raise Broken(f"after 1 MiB in one binary frame came {came}") from None
        if reply != _LARGE:
            raise Broken(
                f"after 1 MiB in one binary frame came other {len(reply)} bytes, not the "
                f"{len(_LARGE)} that were sent",
                _WHOLE if len(reply) < len(_LARGE) else None,
            )


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
        for message in trial.probe.messages:
            data = message.encode() if isinstance(message, str) else message
            third = len(data) // 3
            pieces = [data[:third], data[third : 2 * third], data[2 * third :]]
            opcode = _TEXT if isinstance(message, str) else _BINARY
            await send_fragments(peer, opcode, pieces)
        if trial.probe.echo:
            for message in trial.probe.messages:
                await trial.echoed(peer, message, "after a text message in three fragments", 3)
        else:
            await _answered(trial, peer)


async def _answered(trial: Trial, peer: Peer) -> None:
    for number in range(trial.probe.replies):
        try:
            await peer.message(trial.probe.timeout)
        except TimeoutError:
            raise Broken(
                f"the probe's messages in fragments had {number} replies within "
                f"{trial.probe.timeout:g} s, whole {trial.probe.replies}"
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


@checks.add(
    "messages.empty_fragments",
    "1.2-4",
    title="empty fragments are fragments: at the beginning, between, at the end",
    remedy="a frame without FIN does not end a message, and one with FIN does, however short",
    requires=("messages.fragments",),
    needs=(Need.ECHO,),
)
async def empty_fragments(trial: Trial) -> None:
    async with trial.stream("empty fragments") as peer:
        await send_fragments(peer, _TEXT, [b"", b"a", b"", b"b", b""])
        await trial.echoed(peer, "ab", "after the fragments '', 'a', '', 'b', ''", 3)


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
        globe = "🌍".encode()
        await send_fragments(peer, _TEXT, [b"a" + globe[:2], globe[2:] + b"b"])
        await trial.echoed(peer, "a🌍b", "after a text message split inside a code point", 3)


@checks.add(
    "messages.many_fragments",
    "1.2-3",
    title=f"a message may have {_MANY} fragments",
    remedy="put no limit on the number of fragments, only on the message's bytes",
    requires=("messages.fragments",),
    needs=(Need.ECHO,),
)
async def many_fragments(trial: Trial) -> None:
    async with trial.stream("many fragments") as peer:
        pieces = [bytes([97 + number % 26]) for number in range(_MANY)]
        await send_fragments(peer, _TEXT, pieces)
        await trial.echoed(peer, b"".join(pieces).decode(), f"after {_MANY} fragments of one byte")


@checks.add(
    "messages.pings_between",
    "1.3-2",
    "1.4-3",
    title="pings between the fragments of a message do not disturb it",
    remedy="handle control frames between the fragments of a message (RFC 6455 §5.4)",
    requires=("messages.fragments", "control.pong", "control.mid_message"),
    needs=(Need.ECHO,),
)
async def pings_between(trial: Trial) -> None:
    async with trial.stream("pings between fragments") as peer:
        await peer.send(_TEXT, b"be", fin=False)
        await peer.ping(b"one")
        await peer.send(_CONTINUATION, b"twe", fin=False)
        await peer.ping(b"two")
        await peer.send(_CONTINUATION, b"en")
        await trial.echoed(peer, "between", "after a message with pings between its fragments", 3)
