"""The end of a stream (clauses 1.5-1 to 1.5-12; RFC 6455 §5.5.1, §7)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.raw_stream import Closed, Peer, code_of
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity
from partway.protocol.websocket.close_codes import NO_STATUS, PROTOCOL_ERROR, Close
from partway.protocol.websocket.frames import Opcode
from partway.protocol.websocket.handshake import AFTER_ANSWER, CLOSE_HEADER, finishes_before_close

checks: Final = Checks()

#: The platform's patience with a container's Close (clause 1.5-12).
CLOSE_TIMEOUT: Final = 10.0
_TCP_TIMEOUT = 5.0
#: Codes by which a container ends a stream well whose input has ended (clause 1.5-12).
ENDS_WELL: Final = (1000, 1001, NO_STATUS)


async def answer_to(peer: Peer, code: int | None, reason: str, what: str) -> Close:
    """Send a Close; returns the container's Close, and raises as :func:`close_of` does."""
    await peer.send_close(code, reason)
    return await close_of(peer, what)


async def close_of(peer: Peer, what: str, timeout: float = CLOSE_TIMEOUT) -> Close:
    """Wait ``timeout`` seconds for the container's Close; ``what`` names the event before it.

    Raises:
        Broken: the container sends no Close in time.
    """
    try:
        close = await peer.closed(timeout)
    except TimeoutError:
        raise Broken(f"{what}: the container sent no Close within {timeout:g} s") from None
    if close is None:
        raise Broken(f"{what}: the connection ended without a Close")
    return close


@checks.add(
    "closing.answered",
    "1.5-11",
    "1.5-12",
    title="the container answers a Close with a Close",
    remedy="answer the client's Close with a Close, then end the connection: without that answer "
    "the stream fails",
    requires=("upgrade.granted",),
)
async def answered(trial: Trial) -> None:
    async with trial.stream("a close") as peer:
        await answer_to(peer, 1000, "", "after Close 1000")


@checks.add(
    "closing.code",
    "1.5-1",
    "1.5-12",
    title="the container answers Close 1000 with a code that is no error",
    remedy="send back the code that you received (RFC 6455 §5.5.1): the client gets an error "
    "unless the code is 1000, 1001 or absent",
    requires=("closing.answered",),
)
async def code(trial: Trial) -> None:
    async with trial.stream("a close and its code") as peer:
        close = await answer_to(peer, 1000, "", "after Close 1000")
        if code_of(close) not in ENDS_WELL:
            raise Broken(
                f"Close 1000: the container answered with Close {code_of(close)}; it must answer "
                "with 1000"
            )


@checks.add(
    "closing.after_answer",
    "1.5-12",
    title="a container that promises to reply before it answers a Close keeps the promise",
    remedy=f"answer a Close only after you have sent all replies, or leave {CLOSE_HEADER} out of "
    "your 101",
    requires=("closing.answered", "messages.answer"),
    limit=90,
)
async def after_answer(trial: Trial) -> None:
    probe = trial.probe
    async with trial.stream("a question, and a close right after it") as peer:
        if not finishes_before_close(peer.head):
            return
        for message in probe.messages:
            await peer.say(message)
        await peer.send_close(1000)
        wanted = len(probe.messages) if probe.echo else max(1, probe.replies)
        for came in range(wanted):
            try:
                await peer.message(probe.timeout)
            except Closed as closed:
                raise Broken(
                    f"the 101 has {CLOSE_HEADER}: {AFTER_ANSWER}, but a question with a Close "
                    f"right after it got {came} of {wanted} replies, then: {closed}"
                ) from None
        if await peer.closed(CLOSE_TIMEOUT) is None:
            raise Broken("after the replies the connection ended without a Close")


@checks.add(
    "closing.without_code",
    "1.5-2",
    title="the container answers a Close without a code",
    remedy="a Close may be empty: answer it with an empty Close or with Close 1000",
    requires=("closing.answered",),
)
async def without_code(trial: Trial) -> None:
    async with trial.stream("a close without a code") as peer:
        await answer_to(peer, None, "", "after an empty Close")


@checks.add(
    "closing.reason",
    "1.5-1",
    title="the container accepts a Close with a code of the client's own and a long reason",
    remedy="accept a reason of up to 123 bytes after the two bytes of the code, and the codes "
    "1000 to 1003, 1007 to 1014 and 3000 to 4999",
    requires=("closing.answered",),
)
async def reason(trial: Trial) -> None:
    for code, reason in ((4000, "é" * 61), (1000, "x" * 123), (3000, "y"), (4999, "")):
        what = f"Close {code} with a reason of {len(reason.encode())} bytes"
        async with trial.stream(what) as peer:
            close = await answer_to(peer, code, reason, f"after {what}")
            if code_of(close) == PROTOCOL_ERROR:
                said = f" {close.reason!r}" if close.reason else ""
                raise Broken(f"the container answered {what} with Close 1002{said}")


@checks.add(
    "closing.connection",
    "1.5-12",
    severity=Severity.SHOULD,
    title="after both Closes the container ends the connection",
    remedy="close TCP once both sides have sent a Close: the server closes first (RFC 6455 §7.1.1)",
    requires=("closing.answered",),
)
async def connection(trial: Trial) -> None:
    async with trial.stream("the connection after a close") as peer:
        await answer_to(peer, 1000, "", "after Close 1000")
        try:
            rest = await peer.rest(_TCP_TIMEOUT)
        except TimeoutError:
            raise Broken(
                f"{_TCP_TIMEOUT:g} s after both Closes the connection is still open"
            ) from None
        if rest:
            raise Broken(
                f"the container sent {rest} bytes after its Close",
                "send nothing after your Close (RFC 6455 §5.5.1)",
            )


@checks.add(
    "closing.mid_message",
    "1.5-7",
    "1.2-7",
    title="the container answers a Close in the middle of a message",
    remedy="a client may leave in the middle of a message: answer its Close all the same",
    requires=("closing.answered",),
)
async def mid_message(trial: Trial) -> None:
    for kind in (Opcode.TEXT, Opcode.BINARY):
        what = f"a {kind.name.lower()} message"
        async with trial.stream(f"a close inside {what}") as peer:
            await peer.send(kind, b"half a mess", fin=False)
            await answer_to(peer, 1000, "", f"after Close 1000 inside {what}")
