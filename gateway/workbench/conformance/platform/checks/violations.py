"""Frames that a container must not send, and the platform's answer (rows 1.5-4 to 1.5-6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from partway.gateway.workbench.conformance.platform.check import PlatformChecks
from partway.gateway.workbench.conformance.platform.trial import PlatformTrial
from partway.gateway.workbench.conformance.raw_stream import frame_bytes
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.websocket.frames import Opcode

checks: Final = PlatformChecks("violations")

_TEXT: Final = Opcode.TEXT


def _frame(opcode: int, payload: bytes = b"x", *, fin: bool = True, rsv: int = 0) -> bytes:
    return frame_bytes(opcode, payload, fin=fin, rsv=rsv, masked=False)


@dataclass(frozen=True, slots=True)
class _Violation:
    """Bytes that no server may send; ``code`` is due in the Close and in the client's error."""

    name: str
    what: str
    data: bytes
    code: int = 1002
    clause: str = "1.5-4"


VIOLATIONS: Final = (
    _Violation("masked", "a masked frame", frame_bytes(_TEXT, b"x")),
    _Violation("rsv", "a frame with RSV1 set", _frame(_TEXT, rsv=4)),
    _Violation("opcode", "a frame with the reserved opcode 3", _frame(3)),
    _Violation("control_opcode", "a frame with the reserved opcode 11", _frame(11)),
    _Violation("long_ping", "a Ping with 126 bytes", _frame(Opcode.PING, bytes(126))),
    _Violation("fragmented_ping", "a Ping without FIN", _frame(Opcode.PING, fin=False)),
    _Violation(
        "continuation",
        "a continuation frame that continues no message",
        _frame(Opcode.CONTINUATION),
    ),
    _Violation("inside", "a message inside another", _frame(_TEXT, fin=False) + _frame(_TEXT)),
    _Violation("long_form", "a length of 1 in 16 bits", b"\x81\x7e\x00\x01x"),
    _Violation("close_byte", "Close with one byte", _frame(Opcode.CLOSE, b"\x03")),
    _Violation("close_code", "Close with the code 1005", _frame(Opcode.CLOSE, b"\x03\xed")),
    _Violation(
        "close_reason",
        "Close with a reason that is not UTF-8",
        _frame(Opcode.CLOSE, b"\x03\xe8\xff"),
        1007,
        "1.5-5",
    ),
    _Violation(
        "too_big",
        "a frame that announces 16,777,217 bytes",
        b"\x82\x7f" + ((1 << 24) + 1).to_bytes(8, "big"),
        1009,
        "1.5-6",
    ),
)


def _tried(violation: _Violation) -> Callable[[PlatformTrial], Awaitable[None]]:
    async def body(trial: PlatformTrial) -> None:
        async with trial.stream(violation.what) as (client, seen):
            seen.send_raw(violation.data, violation.what)
            close = await seen.control(Opcode.CLOSE, trial.patience)
            end = await client.end()
        if close.close_code != violation.code:
            raise Broken(
                f"the platform answered {violation.what} with {close}, not with Close "
                f"{violation.code}"
            )
        if (end.kind, end.code) != ("model", str(violation.code)):
            raise Broken(f"after {violation.what} the client gets {end}, not {violation.code}")

    return body


for _each in VIOLATIONS:
    checks.add(
        _each.name,
        _each.clause,
        *(("1.3-3",) if _each.name == "too_big" else ()),
        title=f"{_each.what} ends the stream with {_each.code}, on both sides",
        remedy=f"send Close {_each.code} and ModelStreamError {_each.code}; relay nothing of the "
        "bytes",
    )(_tried(_each))
