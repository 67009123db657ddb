"""Messages up to the documented 16 MiB, whole and in fragments (clauses 1.2-1, 1.2-3 and 1.3-3)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Checks, Need
from partway.gateway.workbench.conformance.checks.messages import send_fragments
from partway.gateway.workbench.conformance.filling import long_bytes, long_text
from partway.gateway.workbench.conformance.link import patience_with
from partway.gateway.workbench.conformance.peer import Closed, Peer
from partway.gateway.workbench.conformance.trial import RAISE_LIMIT, Trial, meanwhile
from partway.gateway.workbench.conformance.verdict import Broken, Severity
from partway.protocol.closing import TOO_BIG
from partway.protocol.frames import Opcode
from partway.protocol.limits import MAX_PART_BYTES

checks: Final = Checks()

#: Just over what libraries take unless they are told otherwise, and the most that a part may have
#: (clause 1.3-3): whoever has a limit between hears the size that it does not take.
_SIZES: Final = ((256 << 10) + 1, (1 << 20) + 1, MAX_PART_BYTES)
_IN_FRAGMENTS: Final = ((1 << 20) + 1, MAX_PART_BYTES)
#: Of a message behind them all, in whose place a buffer still has what was longer.
_BEHIND: Final = 1000
#: No multiple of a character's bytes, so that fragments end inside characters.
_FRAGMENT: Final = (256 << 10) - 1
_LIMIT = 120.0


async def _comes_back(trial: Trial, peer: Peer, message: str | bytes) -> None:
    kind = "text" if isinstance(message, str) else "binary"
    size = len(message.encode() if isinstance(message, str) else message)
    async with meanwhile(peer.say(message)):
        what = f"after a {kind} message of {size} bytes in one frame"
        await trial.echoed(peer, message, what, patience_with(size))


async def _joined(trial: Trial, peer: Peer, message: str | bytes) -> None:
    kind = Opcode.TEXT if isinstance(message, str) else Opcode.BINARY
    data = message.encode() if isinstance(message, str) else message
    fragments = [data[at : at + _FRAGMENT] for at in range(0, len(data), _FRAGMENT)]
    async with meanwhile(send_fragments(peer, kind, fragments)):
        name = kind.name.lower()
        what = f"after a {name} message of {len(data)} bytes in {len(fragments)} fragments"
        await trial.echoed(peer, message, what, patience_with(len(data)))


@checks.add(
    "sizes.binary",
    "1.2-1",
    "1.3-3",
    title="a binary message of 16 MiB in one frame comes back",
    remedy=RAISE_LIMIT,
    requires=("lengths.binary",),
    needs=(Need.ECHO,),
    limit=_LIMIT,
)
async def binary(trial: Trial) -> None:
    async with trial.stream("large binary messages") as peer:
        for size in (*_SIZES, _BEHIND):
            await _comes_back(trial, peer, long_bytes(size))


@checks.add(
    "sizes.text",
    "1.2-1",
    "1.3-3",
    title="a text of 16 MiB in one frame comes back",
    remedy=RAISE_LIMIT,
    requires=("lengths.text",),
    needs=(Need.ECHO,),
    limit=_LIMIT,
)
async def text(trial: Trial) -> None:
    async with trial.stream("large texts") as peer:
        for size in (*_SIZES, _BEHIND):
            await _comes_back(trial, peer, long_text(size))


@checks.add(
    "sizes.binary_fragments",
    "1.2-3",
    title="a binary message of 16 MiB in fragments comes back",
    remedy=RAISE_LIMIT,
    requires=("sizes.binary", "lengths.fragments"),
    needs=(Need.ECHO,),
    limit=_LIMIT,
)
async def binary_fragments(trial: Trial) -> None:
    async with trial.stream("large binary messages in fragments") as peer:
        for size in _IN_FRAGMENTS:
            await _joined(trial, peer, long_bytes(size))


@checks.add(
    "sizes.text_fragments",
    "1.2-3",
    title="a text of 16 MiB in fragments comes back",
    remedy=RAISE_LIMIT,
    requires=("sizes.text", "lengths.fragments"),
    needs=(Need.ECHO,),
    limit=_LIMIT,
)
async def text_fragments(trial: Trial) -> None:
    async with trial.stream("large texts in fragments") as peer:
        for size in _IN_FRAGMENTS:
            await _joined(trial, peer, long_text(size))


@checks.add(
    "sizes.taken",
    "1.2-1",
    "1.3-3",
    severity=Severity.SHOULD,
    title="a frame of 16 MiB is not too large for the container, whatever its model makes of it",
    remedy=RAISE_LIMIT,
    requires=("control.gaps", "sizes.binary_fragments", "sizes.text_fragments"),
    limit=_LIMIT,
)
async def taken(trial: Trial) -> None:
    """A message that is never whole reaches no model, so that no echo is needed."""
    for kind, payload in (
        (Opcode.TEXT, long_text(MAX_PART_BYTES).encode()),
        (Opcode.BINARY, long_bytes(MAX_PART_BYTES)),
    ):
        what = f"a {kind.name.lower()} frame of {len(payload)} bytes, the first of its message"
        async with trial.stream(what) as peer, meanwhile(_begin(peer, kind, payload)):
            try:
                await peer.pong(patience_with(len(payload)))
            except Closed as closed:
                if closed.close is None or closed.close.code == TOO_BIG:
                    raise Broken(f"after {what}: {closed}") from None
                return  # a model that is given fragments may have no use for this one
            except TimeoutError:
                return  # a Pong behind a model that reads fragments is control.busy's affair


async def _begin(peer: Peer, kind: Opcode, payload: bytes) -> None:
    await peer.send(kind, payload, fin=False)
    await peer.ping(b"")  # websockets counts a Ping's bytes among the message's
