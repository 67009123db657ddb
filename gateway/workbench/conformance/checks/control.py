"""Ping and pong (clauses 1.1-4, 1.4-1 and 1.4-3)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.evidence import shown
from partway.gateway.workbench.conformance.peer import Peer
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.frames import Opcode

checks: Final = Checks()

_PONG_TIMEOUT = 5.0
_IN_A_ROW = 20
_FENCE = b"and one more"


async def _ponged(peer: Peer, payload: bytes, what: str, *, asked: bool = False) -> None:
    await peer.ping(payload)
    try:
        got = await peer.pong(_PONG_TIMEOUT)
    except TimeoutError:
        if peer.unasked and asked:
            raise Broken(
                f"{what}: no Pong within {_PONG_TIMEOUT:g} s, in which {peer.unasked} of the "
                "model's messages came"
            ) from None
        if peer.unasked:
            raise Broken(
                f"{what}: no Pong within {_PONG_TIMEOUT:g} s, but a message",
                "a Pong is a control frame of its own (opcode 10, RFC 6455 §5.5.3), and no message",
            ) from None
        raise Broken(f"{what}: no Pong within {_PONG_TIMEOUT:g} s") from None
    if got != payload:
        came = f"a Pong with {shown(got)}" if got else "an empty Pong"
        raise Broken(f"{what}: {came}, not with the Ping's {shown(payload)}")


@checks.add(
    "control.pong",
    "1.1-4",
    "1.4-1",
    "1.4-3",
    title="a Ping is answered by a Pong with its payload",
    remedy="answer each Ping at once by a Pong with its payload; a library does, if it is let: "
    "leave autoping on, and go on receiving",
    requires=("upgrade.granted",),
)
async def pong(trial: Trial) -> None:
    async with trial.stream("a ping") as peer:
        await _ponged(peer, b"\x00\x00\x00\x00\x00\x00\x00\x01", "after a Ping with eight bytes")


@checks.add(
    "control.pong_sizes",
    "1.4-3",
    title="Pings of no bytes and of 125 are answered too",
    remedy="a Ping's payload may have 0 to 125 bytes, and comes back as it is (RFC 6455 §5.5.3)",
    requires=("control.pong",),
)
async def pong_sizes(trial: Trial) -> None:
    async with trial.stream("pings of all sizes") as peer:
        await _ponged(peer, b"", "after an empty Ping")
        await _ponged(peer, bytes(range(125)), "after a Ping with 125 bytes")


@checks.add(
    "control.order",
    "1.4-3",
    title="Pings in a row are answered in their order",
    remedy="send Pongs in the order of the Pings; of several only the last may be answered",
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
            await peer.ping(_FENCE)  # behind its Pong comes no other
            while await peer.pong(_PONG_TIMEOUT) != _FENCE:
                continue
        except TimeoutError:
            raise Broken(
                f"of {_IN_A_ROW} Pings in a row the last has no Pong; the Pongs that came: "
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
    title="a Ping between two fragments is answered before the message has ended",
    remedy="answer Pings while a message is being received: a long one may take minutes",
    requires=("control.pong",),
)
async def mid_message(trial: Trial) -> None:
    async with trial.stream("a ping inside a message") as peer:
        await peer.send(Opcode.TEXT, b"half a mess", fin=False)
        await _ponged(peer, b"inside", "after a Ping between two fragments")


@checks.add(
    "control.busy",
    "1.4-3",
    title="a Ping is answered while the model has something to do",
    remedy="receive while the model computes: another task or thread takes the message; with "
    "aiohttp Pings are answered only in receive()",
    requires=("control.pong", "messages.answer"),
)
async def busy(trial: Trial) -> None:
    async with trial.stream("a ping behind messages") as peer:
        for message in trial.probe.messages * 5:
            await peer.say(message)
        await _ponged(peer, b"behind", "after a Ping behind five questions", asked=True)


@checks.add(
    "control.unsolicited",
    "1.4-3",
    title="a Pong that nobody asked for is ignored",
    remedy="ignore Pongs that answer no Ping of yours, and never take one for a message "
    "(RFC 6455 §5.5.3)",
    requires=("messages.answer",),
)
async def unsolicited(trial: Trial) -> None:
    async with trial.stream("an unsolicited pong") as peer:
        await peer.send(Opcode.PONG, b"unasked")
        await trial.answered(peer, "after an unsolicited Pong")
