"""Violations of RFC 6455, which a container refuses (clauses 1.1-8, 1.5-4, 1.5-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.raw_stream import code_of, frame_bytes
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frames import Opcode

checks: Final = Checks()

_END_TIMEOUT = 5.0
_WELL = (1000, 1001)
_PROTOCOL_ERROR, _NOT_UTF8 = 1002, 1007


@dataclass(frozen=True, slots=True)
class _Violation:
    """Bytes that no client may send; ``section`` of RFC 6455 and ``clauses`` forbid them."""

    name: str
    what: str
    data: bytes
    section: str
    clauses: tuple[str, ...] = ("1.5-4",)

    @property
    def code(self) -> int:
        """The code of the Close that is due."""
        return _NOT_UTF8 if "UTF-8" in self.what else _PROTOCOL_ERROR


_TEXT, _BINARY, _CONTINUATION = Opcode.TEXT, Opcode.BINARY, Opcode.CONTINUATION
_VIOLATIONS = (
    _Violation("unmasked", "a frame without a mask", frame_bytes(_TEXT, b"x", masked=False), "5.1"),
    _Violation("rsv", "a frame with RSV1 set", frame_bytes(_TEXT, b"x", rsv=4), "5.2"),
    _Violation("opcode", "a frame with the reserved opcode 3", frame_bytes(3, b"x"), "5.2"),
    _Violation("long_ping", "a Ping with 126 bytes", frame_bytes(Opcode.PING, bytes(126)), "5.5"),
    _Violation(
        "fragmented_ping", "a Ping without FIN", frame_bytes(Opcode.PING, b"x", fin=False), "5.5"
    ),
    _Violation(
        "continuation",
        "a continuation frame that continues no message",
        frame_bytes(_CONTINUATION, b"x"),
        "5.4",
    ),
    _Violation(
        "inside",
        "a text message inside another",
        frame_bytes(_TEXT, b"x", fin=False) + frame_bytes(_TEXT, b"y"),
        "5.4",
    ),
    _Violation(
        "utf8",
        "text that is not UTF-8",
        frame_bytes(_TEXT, b"\xce\xba\xed\xa0\x80edited"),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "utf8_fragments",
        "text that is not UTF-8 over two fragments",
        frame_bytes(_TEXT, b"\xf0\x9f", fin=False) + frame_bytes(_CONTINUATION, b"\x41"),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "utf8_cut",
        "text that ends inside a code point, and so is not UTF-8,",
        frame_bytes(_TEXT, b"cut \xe2\x82"),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "utf8_overlong",
        "text with NUL in two bytes, which is not UTF-8,",
        frame_bytes(_TEXT, b"overlong \xc0\x80"),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "utf8_late",
        "text that is not UTF-8 after its first 4 KiB",
        frame_bytes(_TEXT, b"a" * 4096 + b"\xff"),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "utf8_last",
        "text in fragments that ends inside a code point, and so is not UTF-8,",
        frame_bytes(_TEXT, b"cut \xe2\x82", fin=False) + frame_bytes(_CONTINUATION),
        "8.1",
        ("1.1-8",),
    ),
    _Violation(
        "close_code", "Close with the code 1005", frame_bytes(Opcode.CLOSE, b"\x03\xed"), "7.4.1"
    ),
    _Violation("close_byte", "Close with one byte", frame_bytes(Opcode.CLOSE, b"\x03"), "5.5.1"),
    _Violation(
        "close_reason",
        "Close with a reason that is not UTF-8",
        frame_bytes(Opcode.CLOSE, b"\x03\xe8\xff"),
        "5.5.1",
        ("1.5-5",),
    ),
)


def _tried(violation: _Violation) -> Callable[[Trial], Awaitable[None]]:
    async def body(trial: Trial) -> None:
        close = await _end_after(trial, violation)
        if close is None or close.code is None:
            return  # violations.code checks the codes
        if code_of(close) in _WELL:
            raise Broken(
                f"the container answered {violation.what} with Close {close.code}, as if it were "
                "allowed"
            )
        if violation.code == _NOT_UTF8 and close.code != _NOT_UTF8:
            raise Broken(
                f"the container answered {violation.what} with Close {close.code}, not with "
                f"{_NOT_UTF8}"
            )

    return body


async def _end_after(trial: Trial, violation: _Violation) -> Close | None:
    async with trial.stream(violation.what) as peer:
        await peer.send_raw(violation.data, violation.what)
        try:
            return await peer.closed(_END_TIMEOUT)
        except TimeoutError:
            raise Broken(f"after {violation.what} the stream goes on") from None


def _requires(violation: _Violation) -> tuple[str, ...]:
    if violation.name == "utf8_last":
        return ("violations.utf8_fragments", "violations.utf8_cut")
    if violation.name.startswith("utf8_"):
        return ("upgrade.granted", "violations.utf8")
    if violation.name.startswith("close"):
        return ("upgrade.granted", "closing.answered")
    return ("upgrade.granted",)


for _each in _VIOLATIONS:
    checks.add(
        f"violations.{_each.name}",
        *_each.clauses,
        severity=Severity.SHOULD,
        title=f"{_each.what} ends the stream",
        remedy=f"close with {_each.code} (RFC 6455 §{_each.section}); most WebSocket "
        "libraries do this by themselves",
        requires=_requires(_each),
    )(_tried(_each))


@checks.add(
    "violations.code",
    "1.5-4",
    severity=Severity.SHOULD,
    title="the container tells a client that it broke RFC 6455",
    remedy="send Close with 1002 before the connection ends (RFC 6455 §7.1.7)",
    requires=("violations.unmasked",),
)
async def code(trial: Trial) -> None:
    close = await _end_after(trial, _VIOLATIONS[0])
    if close is None:
        raise Broken(f"after {_VIOLATIONS[0].what} the connection ends without a Close")
    if close.code != _PROTOCOL_ERROR:
        raise Broken(
            f"the container answered {_VIOLATIONS[0].what} with Close {code_of(close)}, not with "
            "1002"
        )
