"""Mutants that answer a Close by another code, or not at all, in some states (1.5-1, 1.5-12)."""

from __future__ import annotations

import struct

from tests.frame_factory import BINARY, CLOSE, CONTINUATION, PING, TEXT
from tests.gateway.workbench.conformance.mutants.base_stream import Finished, Stream
from tests.gateway.workbench.conformance.mutants.closing import Thoughtful
from tests.gateway.workbench.conformance.mutants.registry import mutant


class _Answers(Stream):
    """Answers a Close by :meth:`answer_to` where that says something."""

    def answer_to(self, code: int) -> bytes | None:
        """The payload of the answer to a Close with a code; None for the right one."""
        raise NotImplementedError

    async def on_close(self, payload: bytes) -> None:
        self.check_close(payload)
        answer = self.answer_to(*struct.unpack("!H", payload[:2])) if payload else None
        if answer is None or self.closing:
            await super().on_close(payload)
        else:
            self.closing = True
            await self.send(CLOSE, answer)
            raise Finished


def _code(code: int) -> bytes:
    return struct.pack("!H", code)


@mutant("closing.code_answered")
class FailsOnceAsked(_Answers):
    """Answers Close 1000 by 1011 once it has been asked something."""

    asked = False

    async def on_text(self, text: str) -> None:
        self.asked = True
        await super().on_text(text)

    def answer_to(self, code: int) -> bytes | None:
        return _code(1011) if self.asked else None


@mutant("closing.code_busy")
class FailsUnderLoad(Thoughtful, _Answers):
    """Answers Close 1000 by 1011 while it has messages to answer."""

    def answer_to(self, code: int) -> bytes | None:
        return _code(1011) if self.thoughts else None


@mutant("closing.code_busy")
class NoCloseUnderLoad(Thoughtful):
    """Passes over a Close that comes while it has messages to answer."""

    async def on_close(self, payload: bytes) -> None:
        if not self.thoughts:
            await super().on_close(payload)


@mutant("closing.code_inside")
class FailsInside(_Answers):
    """Answers Close 1000 by 1011 inside a message."""

    def answer_to(self, code: int) -> bytes | None:
        return _code(1011) if self.begun else None


@mutant("closing.code_inside")
class FailsInsideBinary(_Answers):
    """Answers Close 1000 by 1008 inside a binary message of which two fragments have come."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        await super().on_data(fin, opcode, payload)
        self.continued = opcode == CONTINUATION

    def answer_to(self, code: int) -> bytes | None:
        inside = self.begun is not None and self.begun[0] == BINARY
        return _code(1008) if inside and self.continued else None


@mutant("closing.mid_message")
class NoCloseInBinary(Stream):
    """Passes over a Close that comes inside a binary message."""

    async def on_close(self, payload: bytes) -> None:
        if self.begun is None or self.begun[0] == TEXT:
            await super().on_close(payload)


@mutant("closing.codes")
class OnlyNormal(_Answers):
    """Ends the connection where a Close says that its client has failed."""

    def answer_to(self, code: int) -> bytes | None:
        if code == 1011:
            raise ConnectionResetError("what a client")
        return None


@mutant("closing.same_code")
class FailsWithItsClient(_Answers):
    """Answers Close 1001 by 1007."""

    def answer_to(self, code: int) -> bytes | None:
        return _code(1007) if code == 1001 else None


@mutant("closing.same_code")
class GoesAway(_Answers):
    """Answers Close 1000 by 1001 inside a message."""

    def answer_to(self, code: int) -> bytes | None:
        return _code(1001) if self.begun else None


@mutant("closing.same_code")
class NoCodeInside(_Answers):
    """Answers a Close by an empty one inside a message."""

    def answer_to(self, code: int) -> bytes | None:
        return b"" if self.begun else None


@mutant("closing.same_code")
class ReasonForCode(Stream):
    """Answers a Close that has a reason by 1003."""

    async def on_close(self, payload: bytes) -> None:
        self.check_close(payload)
        await super().on_close(_code(1003) if len(payload) > 2 else payload)


@mutant("closing.reason")
class ShortReasons(Stream):
    """Ends the connection at a Close whose reason has the 123 bytes that it may have."""

    async def on_close(self, payload: bytes) -> None:
        if len(payload) == 125:
            raise ConnectionResetError("124 at most")
        await super().on_close(payload)


@mutant("closing.code_answered")
class FailsOnceBinary(_Answers):
    """Answers Close 1000 by 1011 once it has answered a binary message."""

    spoken = False

    async def on_binary(self, data: bytes) -> None:
        self.spoken = True
        await super().on_binary(data)

    def answer_to(self, code: int) -> bytes | None:
        return _code(1011) if self.spoken else None


@mutant("closing.codes")
class WaitsForItsEnd(Stream):
    """Passes over Close 1001 inside a message, for whose end it waits."""

    async def on_close(self, payload: bytes) -> None:
        if self.begun is None or payload != _code(1001):
            await super().on_close(payload)


@mutant("closing.code_busy")
class FailsBehindPing(_Answers):
    """Answers Close 1000 by 1002 where a Ping is the last frame before it."""

    asked = pinged = False

    async def take(self, fin: bool, opcode: int, payload: bytes) -> None:
        before, self.pinged = self.pinged, opcode == PING and not self.begun
        self.behind_ping = before and self.asked
        await super().take(fin, opcode, payload)

    async def on_text(self, text: str) -> None:
        self.asked = True
        await super().on_text(text)

    def answer_to(self, code: int) -> bytes | None:
        return _code(1002) if self.behind_ping else None
