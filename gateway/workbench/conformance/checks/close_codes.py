"""The answer to a Close, in each state of a stream (clauses 1.5-1, 1.5-11 and 1.5-12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.checks.closing import CLOSE_TIMEOUT, ENDS_WELL, close_of
from partway.gateway.workbench.conformance.checks.messages import send_fragments
from partway.gateway.workbench.conformance.message_content import long_bytes
from partway.gateway.workbench.conformance.raw_stream import Peer, code_of
from partway.gateway.workbench.conformance.trial import Trial, meanwhile
from partway.gateway.workbench.conformance.verdict import Broken, Severity
from partway.protocol.websocket.close_codes import (
    NO_STATUS,
    NORMAL,
    PROTOCOL_ERROR,
    UNSUPPORTED_DATA,
)
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

#: Messages to an echo that are unanswered when the Close comes: many small ones, and a few large
#: ones that fill the buffers on the way.
_IN_FLIGHT, _LARGE_ONES, _LARGE = 20, 8, 256 << 10
#: Codes of the Closes that the platform sends besides 1000 (clauses 1.5-4 to 1.5-10).
_PLATFORMS: Final = (1001, 1002, 1007, 1008, 1009, 1011)
#: The code that tells a container that its client has left (clause 1.5-9).
_LEFT: Final = 1001
#: Codes that must come back: the platform's commonest, and a client's own. 1000 is taken too: some
#: libraries know no other answer (aiohttp), and no client hears it.
_SENT_BACK: Final = (1001, 1011, 3000, 4999)

_ENDING = (
    "answer Close 1000 with Close 1000 in every state of the stream: the client gets an error "
    "unless the code is 1000, 1001 or absent"
)


#: Brings a stream into a state.
_Reach = Callable[[Trial, Peer], Awaitable[None]]


async def _fresh(_trial: Trial, _peer: Peer) -> None:
    pass


async def _asked(trial: Trial, peer: Peer) -> None:
    await trial.answered(peer, "before the Close")


async def _asked_in_binary(trial: Trial, peer: Peer) -> None:
    await peer.say(b"\x00\xff")
    await trial.echoed(peer, b"\x00\xff", "before the Close")


async def _asked_in_fragments(trial: Trial, peer: Peer) -> None:
    await send_fragments(peer, Opcode.TEXT, [b"frag", b"ments"])
    await trial.echoed(peer, "fragments", "before the Close")


async def _pinged(_trial: Trial, peer: Peer) -> None:
    await peer.ping(b"before")
    await peer.pong()


def _begun(kind: Opcode, *, continued: bool) -> _Reach:
    async def say(_trial: Trial, peer: Peer) -> None:
        await peer.send(kind, b"half a mess", fin=False)
        if continued:
            await peer.send(Opcode.CONTINUATION, b"age, and m", fin=False)

    return say


@dataclass(frozen=True, slots=True)
class _State:
    """The state of a stream when its Close comes; codes in ``also`` end the stream too."""

    what: str
    reach: _Reach
    also: tuple[int, ...] = ()


_FRESH: Final = _State("on a new stream", _fresh)
_ANSWERED: Final = _State("sent after an answer", _asked)
_PINGED: Final = _State("sent after a Pong", _pinged)
#: States for an echo only: other models may treat such messages as they like.
_ECHOED: Final = (
    _State("sent after a binary answer", _asked_in_binary),
    _State("sent after the answer to a message in fragments", _asked_in_fragments),
)
#: websockets' sans-IO layer answers 1002 to a Close inside a message. The stream has ended well all
#: the same (clauses 1.5-7 and 1.5-12). A container that takes only text may refuse binary before
#: the Close comes.
_INSIDE: Final = tuple(
    _State(
        f"inside a {kind.name.lower()} message, after its {'second' if continued else 'first'} "
        "fragment",
        _begun(kind, continued=continued),
        (PROTOCOL_ERROR, UNSUPPORTED_DATA) if kind is Opcode.BINARY else (PROTOCOL_ERROR,),
    )
    for kind in (Opcode.TEXT, Opcode.BINARY)
    for continued in (False, True)
)


async def _closed_in(trial: Trial, state: _State, code: int, reason: str = "") -> int:
    """Close a stream in a state; return the code of the container's Close."""
    async with trial.stream(f"Close {code} {state.what}") as peer:
        await state.reach(trial, peer)
        await peer.send_close(code, reason)
        patience = _patience(trial) if state is _ANSWERED else CLOSE_TIMEOUT
        close = await close_of(peer, f"after Close {code} {state.what}", patience)
    return code_of(close)


def _patience(trial: Trial) -> float:
    """Seconds for a Close: the answer to a question may come before it (clause 1.5-12)."""
    return trial.probe.timeout + CLOSE_TIMEOUT


def _ended_well(code: int, what: str, more: tuple[int, ...] = ()) -> None:
    if code not in (*ENDS_WELL, *more):
        raise Broken(
            f"Close 1000 {what}: the container answered with Close {code}; it must answer with 1000"
        )


@checks.add(
    "closing.code_answered",
    "1.5-11",
    "1.5-12",
    title="Close 1000 after an answer ends the stream without an error",
    remedy=_ENDING,
    requires=("closing.code", "control.pong", "messages.answer", "messages.binary_fragments"),
    limit=90,
)
async def code_answered(trial: Trial) -> None:
    for state in (_ANSWERED, _PINGED, *(_ECHOED if trial.probe.echo else ())):
        _ended_well(await _closed_in(trial, state, 1000), state.what)


@checks.add(
    "closing.code_inside",
    "1.5-7",
    "1.5-12",
    title="Close 1000 inside a message ends the stream without an error",
    remedy="answer a Close inside a message with the same code: a client may leave in the middle "
    "of a message",
    requires=("closing.code", "closing.mid_message"),
    limit=60,
)
async def code_inside(trial: Trial) -> None:
    for state in _INSIDE:
        _ended_well(await _closed_in(trial, state, 1000), state.what, state.also)


@checks.add(
    "closing.code_busy",
    "1.5-11",
    "1.5-12",
    title="Close 1000 after messages that have no answer yet ends the stream without an error",
    remedy="read a Close while the model is busy, and answer it with the same code: a busy model "
    "is no reason for an error code",
    # Under load a reset overtakes the Close.
    requires=("closing.code_answered", "closing.reset", "control.busy", "sizes.binary"),
    limit=180,
)
async def code_busy(trial: Trial) -> None:
    probe = trial.probe
    small = probe.messages * (_IN_FLIGHT if probe.echo else 1)
    loads: list[tuple[str | bytes, ...]] = [small]
    if probe.echo:
        loads.append((long_bytes(_LARGE),) * _LARGE_ONES)
    for load in loads:
        what = f"sent after {len(load)} messages that have no answer yet"
        title = f"Close 1000 {what}"
        async with trial.stream(title) as peer, meanwhile(_say_and_close(peer, load)):
            close = await close_of(peer, f"after {title}", _patience(trial))
        _ended_well(code_of(close), what)


async def _say_and_close(peer: Peer, load: tuple[str | bytes, ...]) -> None:
    for message in load:
        await peer.say(message)
    await peer.ping(b"and a Ping")
    await peer.send_close(1000)


@checks.add(
    "closing.codes",
    *("1.5-4", "1.5-8", "1.5-9"),
    title="the container answers every Close code that the platform sends",
    remedy="answer every Close with a Close: the platform ends streams with the codes "
    + ", ".join(map(str, _PLATFORMS)),
    requires=("closing.mid_message",),
    limit=90,
)
async def codes(trial: Trial) -> None:
    for code in _PLATFORMS:
        await _closed_in(trial, _FRESH, code)
    for state in (_INSIDE[0], _INSIDE[-1]):  # a client that leaves waits for no end of its message
        await _closed_in(trial, state, _LEFT)


@checks.add(
    "closing.same_code",
    "1.5-1",
    "1.5-7",
    severity=Severity.SHOULD,
    title="the container answers a Close with the same code, in every state of a stream",
    remedy="send back the code that you received (RFC 6455 §5.5.1), not another code and not an "
    "empty Close",
    requires=(
        *("closing.code_answered", "closing.code_inside", "closing.code_busy"),
        *("closing.codes", "closing.reason"),
    ),
    limit=120,
)
async def same_code(trial: Trial) -> None:
    answered = (_ANSWERED,) if trial.probe.echo else ()  # a model may take its time each time
    ended = [(state, 1000, "") for state in (_FRESH, *answered, *_INSIDE)]
    others = [(_FRESH, code, "") for code in _SENT_BACK]
    for state, code, reason in (*ended, *others, (_FRESH, 1000, "so long"), (_FRESH, 4000, "bye")):
        came = await _closed_in(trial, state, code, reason)
        if came not in (code, 1000, *state.also):
            said = f"Close {came}" if came != NO_STATUS else "a Close without a code"
            allowed = "1000" if code == NORMAL else f"{code} or 1000"
            raise Broken(
                f"Close {code} {state.what}: the container answered with {said}; it must answer "
                f"with Close {allowed}"
            )
