"""Messages up to the documented 16 MiB, whole and in fragments (clauses 1.2-1, 1.2-3 and 1.3-3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from partway.gateway.workbench.conformance.check import Body, Checks, Need
from partway.gateway.workbench.conformance.checks.messages import send_fragments
from partway.gateway.workbench.conformance.message_content import long_bytes, long_text
from partway.gateway.workbench.conformance.raw_connection import patience_with
from partway.gateway.workbench.conformance.raw_stream import Closed, Peer, as_frame
from partway.gateway.workbench.conformance.trial import RAISE_LIMIT, Trial, meanwhile
from partway.gateway.workbench.conformance.verdict import Broken, Severity
from partway.protocol.limits import MAX_PART_BYTES
from partway.protocol.websocket.close_codes import TOO_BIG
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

_FILLED: Final[Mapping[str, Callable[[int], str | bytes]]] = {
    "binary": long_bytes,
    "text": long_text,
}

#: Sizes just above the usual limits of libraries, and the largest part (clause 1.3-3). A limit
#: between them shows in the first message above it.
_SIZES: Final = ((256 << 10) + 1, (1 << 20) + 1, MAX_PART_BYTES)
_JOINED: Final = ((1 << 20) + 1, MAX_PART_BYTES)
#: Bytes of a last, short message: a buffer may still hold the end of a longer one.
_BEHIND: Final = 1000
#: No multiple of a character's bytes, so that fragments end inside characters.
_FRAGMENT: Final = (256 << 10) - 1
_LIMIT = 120.0


def _whole(kind: str) -> Body:
    async def body(trial: Trial) -> None:
        async with trial.stream(f"large {kind} messages") as peer:
            for size in (*_SIZES, _BEHIND):
                message = _FILLED[kind](size)
                async with meanwhile(peer.say(message)):
                    what = f"after a {kind} message of {size} bytes in one frame"
                    await trial.echoed(peer, message, what, patience_with(size))

    return body


def _in_fragments(kind: str) -> Body:
    async def body(trial: Trial) -> None:
        async with trial.stream(f"large {kind} messages in fragments") as peer:
            for size in _JOINED:
                message = _FILLED[kind](size)
                opcode, data = as_frame(message)
                fragments = [data[at : at + _FRAGMENT] for at in range(0, size, _FRAGMENT)]
                async with meanwhile(send_fragments(peer, opcode, fragments)):
                    what = f"after a {kind} message of {size} bytes in {len(fragments)} fragments"
                    await trial.echoed(peer, message, what, patience_with(size))

    return body


for _kind in _FILLED:
    checks.add(
        f"sizes.{_kind}",
        "1.2-1",
        "1.3-3",
        title=f"a {_kind} message of 16 MiB in one frame comes back",
        remedy=RAISE_LIMIT,
        requires=(f"lengths.{_kind}",),
        needs=(Need.ECHO,),
        limit=_LIMIT,
    )(_whole(_kind))
    checks.add(
        f"sizes.{_kind}_fragments",
        "1.2-3",
        "1.3-3",
        title=f"a {_kind} message of 16 MiB in fragments comes back",
        remedy=RAISE_LIMIT,
        requires=(f"sizes.{_kind}", "lengths.fragments"),
        needs=(Need.ECHO,),
        limit=_LIMIT,
    )(_in_fragments(_kind))


@checks.add(
    "sizes.taken",
    "1.2-1",
    "1.3-3",
    severity=Severity.SHOULD,
    title="the container accepts a frame of 16 MiB, whatever its model does with it",
    remedy=RAISE_LIMIT,
    requires=("control.gaps", "sizes.binary_fragments", "sizes.text_fragments"),
    limit=_LIMIT,
)
async def taken(trial: Trial) -> None:
    """Send a frame whose message never ends: it reaches no model, so that no echo is needed."""
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
                return  # a model that reads fragments may refuse this one
            except TimeoutError:
                return  # control.busy checks the Pong behind a model that reads fragments


async def _begin(peer: Peer, kind: Opcode, payload: bytes) -> None:
    await peer.send(kind, payload, fin=False)
    await peer.ping(b"")  # websockets counts a Ping's bytes among the message's
