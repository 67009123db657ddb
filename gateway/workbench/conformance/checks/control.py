"""Ping and pong (clauses 1.1-4, 1.4-1 and 1.4-3)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.raw_stream import Closed, Peer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.close_codes import UNSUPPORTED_DATA
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

_PONG_TIMEOUT = 5.0
_IN_A_ROW = 20
_FENCE = b"and one more"
#: Sizes of Pings' payloads: small, the gateway's eight, around powers of two, and the largest.
_SIZES = (0, 1, 2, 3, 4, 7, 8, 9, 16, 32, 63, 64, 65, 100, 123, 124, 125)
#: Payloads that a container breaks if it decodes, trims or cuts them.
_PAYLOADS = (
    bytes(range(131, 256)),
    b"\xff" * 8,
    b"\x01" + bytes(7),
    bytes(8),
    b"\r\n",
    b" \t ",
    b"\xef\xbb\xbfa\x80",
    b"00000012",
)
_GAPS = 3


async def _ponged(peer: Peer, payload: bytes, what: str, *, asked: bool = False) -> None:
    await peer.ping(payload)
    try:
        got = await peer.pong(_PONG_TIMEOUT)
    except TimeoutError:
        if peer.unasked and asked:
            raise Broken(
                f"{what}: no Pong came within {_PONG_TIMEOUT:g} s, but {peer.unasked} of the "
                "model's messages did"
            ) from None
        if peer.unasked:
            raise Broken(
                f"{what}: no Pong came within {_PONG_TIMEOUT:g} s, but a message did",
                "send a Pong as a control frame (opcode 10, RFC 6455 §5.5.3), not as a message",
            ) from None
        raise Broken(f"{what}: no Pong came within {_PONG_TIMEOUT:g} s") from None
    if got != payload:
        came = f"a Pong with {shown(got)} came" if got else "an empty Pong came"
        raise Broken(f"{what}: {came}; it must have the Ping's payload, {shown(payload)}")


@checks.add(
    "control.pong",
    "1.1-4",
    "1.4-1",
    "1.4-3",
    title="the container answers a Ping with a Pong that has the same payload",
    remedy="answer each Ping at once with a Pong that has the same payload; a WebSocket library "
    "does this: leave autoping on, and keep receiving",
    requires=("upgrade.granted",),
)
async def pong(trial: Trial) -> None:
    async with trial.stream("a ping") as peer:
        await _ponged(peer, b"\x00\x00\x00\x00\x00\x00\x00\x01", "after a Ping with eight bytes")


@checks.add(
    "control.pong_sizes",
    "1.4-3",
    title="the container answers Pings of 0 to 125 bytes",
    remedy="send a payload of 0 to 125 bytes back unchanged (RFC 6455 §5.5.3)",
    requires=("control.pong",),
)
async def pong_sizes(trial: Trial) -> None:
    async with trial.stream("pings of all sizes") as peer:
        for size in _SIZES:
            what = f"after a Ping with {size} bytes" if size else "after an empty Ping"
            await _ponged(peer, bytes(range(1, size + 1)), what)


@checks.add(
    "control.pong_bytes",
    "1.4-3",
    title="the container sends any bytes of a Ping's payload back unchanged",
    remedy="handle a Ping's payload as bytes, not as text or a number: do not decode, trim or "
    "cut it",
    requires=("control.pong_sizes",),
)
async def pong_bytes(trial: Trial) -> None:
    async with trial.stream("pings with any bytes") as peer:
        for payload in _PAYLOADS:
            await _ponged(peer, payload, f"after a Ping with {shown(payload)}")


@checks.add(
    "control.order",
    "1.4-3",
    title="the container answers Pings in a row in their order",
    remedy="send Pongs in the order of the Pings; if several Pings wait, you may answer only the "
    "last",
    requires=("control.pong",),
)
async def order(trial: Trial) -> None:
    async with trial.stream("pings in a row") as peer:
        sent = [f"{number:03}".encode() for number in range(_IN_A_ROW)]
        for payload in sent:
            await peer.ping(payload)
        try:
            while await peer.pong(_PONG_TIMEOUT) != sent[-1]:
                continue
            await peer.ping(_FENCE)  # after its Pong no other comes
            while await peer.pong(_PONG_TIMEOUT) != _FENCE:
                continue
        except TimeoutError:
            raise Broken(
                f"the last of {_IN_A_ROW} Pings in a row got no Pong; these Pongs came: "
                f"{b' '.join(peer.pongs).decode('latin-1')[:80]}"
            ) from None
        peer.pongs.remove(_FENCE)
        places = [sent.index(payload) if payload in sent else -1 for payload in peer.pongs]
        if places != sorted(places) or -1 in places:
            raise Broken(f"Pongs came for the Pings {places}, which is not their order")


@checks.add(
    "control.mid_message",
    "1.3-2",
    "1.4-3",
    title="the container answers a Ping between two fragments before the message ends",
    remedy="answer Pings while you receive a message: a long message may take minutes",
    requires=("control.pong",),
)
async def mid_message(trial: Trial) -> None:
    async with trial.stream("a ping inside a message") as peer:
        await peer.send(Opcode.TEXT, b"half a mess", fin=False)
        await _ponged(peer, b"inside", "after a Ping between two fragments")


@checks.add(
    "control.gaps",
    "1.3-2",
    "1.4-3",
    title="the container answers every Ping inside a text or binary message, even several in one "
    "gap",
    remedy="answer each Ping when it comes, even inside a message: let the library read frames, "
    "not whole messages",
    requires=("control.mid_message", "control.pong_sizes", "messages.binary_fragments"),
)
async def gaps(trial: Trial) -> None:
    for kind in (Opcode.TEXT, Opcode.BINARY):
        async with trial.stream(f"pings inside a {kind.name.lower()} message") as peer:
            try:
                await _ping_in_gaps(peer, kind)
            except Closed as closed:
                if closed.close is None or closed.close.code != UNSUPPORTED_DATA:
                    raise  # a model may take text alone, and refuse binary at once


async def _ping_in_gaps(peer: Peer, kind: Opcode) -> None:
    for gap in range(_GAPS):
        await peer.send(Opcode.CONTINUATION if gap else kind, b"a piece, ", fin=False)
        for payload in (b"", f"gap {gap}".encode(), bytes(range(125))):
            what = f"after a Ping of {len(payload)} bytes that follows fragment {gap + 1}"
            await _ponged(peer, payload, f"{what} of a {kind.name.lower()} message")


@checks.add(
    "control.busy",
    "1.4-3",
    title="the container answers a Ping while the model is busy",
    remedy="keep receiving while the model computes in another task or thread; aiohttp answers "
    "Pings only in receive()",
    requires=("control.pong", "messages.answer"),
)
async def busy(trial: Trial) -> None:
    async with trial.stream("a ping after messages") as peer:
        for message in trial.probe.messages * 5:
            await peer.say(message)
        await _ponged(peer, b"behind", "after a Ping that follows five questions", asked=True)


@checks.add(
    "control.unsolicited",
    "1.4-3",
    title="the container ignores a Pong that answers no Ping",
    remedy="ignore Pongs that answer no Ping of yours, and never treat one as a message "
    "(RFC 6455 §5.5.3)",
    requires=("messages.answer",),
)
async def unsolicited(trial: Trial) -> None:
    async with trial.stream("an unsolicited pong") as peer:
        for payload in (b"unasked", b"", bytes(range(125))):
            await peer.send(Opcode.PONG, payload)
        await trial.answered(peer, "after unsolicited Pongs of 7, 0 and 125 bytes")
