"""TCP after the Close (clause 1.5-12; RFC 6455 §7.1.1)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.checks.closing import CLOSE_TIMEOUT, answer_to
from partway.gateway.workbench.conformance.raw_stream import Peer, frame_bytes
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity, Untried
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

#: Seconds for the server to end TCP first, which RFC 6455 §7.1.1 wants at once; and seconds for
#: checks of something else.
_AT_ONCE, _PATIENCE = 2.0, 5.0
#: Seconds until a container gives up a connection whose client has not ended its side. This is more
#: than twice the platform's patience with a Close (clause 1.5-12), which websockets takes.
_HALF_OPEN = 30.0
_POLL = 0.25

_GOES_FIRST = (
    "close TCP once both sides have sent a Close: the server closes first (RFC 6455 §7.1.1)"
)
_FIN = (
    "shut the socket down for writing, then close it, without SO_LINGER: a reset can overtake "
    "the Close, and then the stream fails"
)


async def _ended(
    peer: Peer, which: str, code: int | None = 1000, patience: float = _AT_ONCE
) -> None:
    """Send Close, wait for the container's Close, and read to the end in ``patience`` seconds.

    A Close with the code None has no code.

    Raises:
        Broken: the container leaves the connection open, sends more bytes, or resets it.
    """
    await answer_to(peer, code, "", which)
    try:
        rest = await peer.rest(patience)
    except TimeoutError:
        raise Broken(
            f"{which}: {patience:g} s after both Closes the connection is still open"
        ) from None
    if rest:
        raise Broken(f"{which}: the container sent {rest} bytes after its Close")
    if peer.link.reset:
        raise Broken(
            f"{which}: after both Closes the container reset the connection; it must end with FIN"
        )


@checks.add(
    "closing.reset",
    "1.5-12",
    title="after both Closes the connection ends with FIN, not with a reset",
    remedy=_FIN,
    requires=("closing.connection",),
)
async def reset(trial: Trial) -> None:
    async with trial.stream("how the connection ends") as peer:
        await _ended(peer, "a stream without a message", patience=_PATIENCE)


@checks.add(
    "closing.every_state",
    "1.5-12",
    severity=Severity.SHOULD,
    title="after both Closes the container ends the connection at once, in every state of the "
    "stream",
    remedy=_GOES_FIRST,
    requires=("closing.reset", "closing.mid_message", "closing.without_code", "messages.answer"),
    limit=120,
)
async def every_state(trial: Trial) -> None:
    async with trial.stream("a close after an answer") as peer:
        await trial.answered(peer, "before a Close")
        await _ended(peer, "a stream with an answer")
    async with trial.stream("a close inside a message") as peer:
        await peer.send(Opcode.TEXT, b"half a mess", fin=False)
        await _ended(peer, "a Close inside a message")
    async with trial.stream("a close without a code, and how it ends") as peer:
        await _ended(peer, "a Close without a code", None)


@checks.add(
    "closing.own",
    "1.5-4",
    severity=Severity.SHOULD,
    title="after its own Close and the client's answer the container ends the connection",
    remedy=_GOES_FIRST,
    requires=("closing.every_state", "violations.opcode"),
)
async def own(trial: Trial) -> None:
    async with trial.stream("a stream that the container closes") as peer:
        await peer.send_raw(frame_bytes(3, b"x"), "a frame with the reserved opcode 3")
        if await peer.closed(CLOSE_TIMEOUT) is None:
            return  # it has ended the connection already
        try:
            await peer.rest(_AT_ONCE)
        except TimeoutError:
            raise Broken(
                f"{_AT_ONCE:g} s after the container's own Close and the client's answer the "
                "connection is still open"
            ) from None


@checks.add(
    "closing.half_open",
    "1.5-12",
    severity=Severity.SHOULD,
    title="a client that keeps its half of TCP open holds the container for half a minute at most",
    remedy="close the socket a few seconds after both Closes, even if the client has not closed "
    "its own: a client that vanished never will",
    requires=("closing.connection",),
    limit=_HALF_OPEN + 30,
    aside=True,
)
async def half_open(trial: Trial) -> None:
    if trial.fast:
        raise Untried(f"takes up to {_HALF_OPEN:g} s: leave --fast out")
    async with trial.stream("a connection whose client keeps its half open") as peer:
        await _ended(peer, "a stream without a message")
        deadline = time.monotonic() + _HALF_OPEN
        while time.monotonic() < deadline:
            try:
                # A closed socket answers any byte by a reset, so that the next byte cannot be sent.
                await peer.send_raw(b"\0", "a byte that shows whether the socket is still open")
            except Broken:
                return
            await asyncio.sleep(_POLL)
    raise Broken(
        f"{_HALF_OPEN:g} s after both Closes and its own FIN the container still waits for the "
        "client's FIN"
    )
