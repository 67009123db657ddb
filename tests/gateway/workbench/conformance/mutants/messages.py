"""Mutants that change, lose or mix up messages (clauses 1.2-1 to 1.3-4)."""

from __future__ import annotations

import asyncio

from tests.frame_factory import BINARY, CONTINUATION, TEXT
from tests.gateway.workbench.conformance.mutants.base_stream import Stream, Violation
from tests.gateway.workbench.conformance.mutants.registry import mutant


@mutant("messages.text")
class Latin(Stream):
    """Reads text as Latin-1, and writes it as UTF-8."""

    async def on_text(self, text: str) -> None:
        await super().on_text(text.encode().decode("latin-1"))


@mutant("messages.answer")
class TextAsBinary(Stream):
    """Answers text with binary."""

    async def on_text(self, text: str) -> None:
        await self.send(BINARY, text.encode())


@mutant("messages.binary")
class BinaryAsText(Stream):
    """Answers binary with text."""

    async def on_binary(self, data: bytes) -> None:
        await self.send(TEXT, data.decode("latin-1").encode())


@mutant("messages.binary")
class RefusesBinary(Stream):
    """Closes with 1003 when binary comes."""

    async def on_binary(self, data: bytes) -> None:
        raise Violation(1003, "text only")


@mutant("messages.empty")
class DropsEmpty(Stream):
    """Takes an empty message for none."""

    async def on_text(self, text: str) -> None:
        if text:
            await super().on_text(text)

    async def on_binary(self, data: bytes) -> None:
        if data:
            await super().on_binary(data)


@mutant("lengths.text", "lengths.binary")
class CutsLarge(Stream):
    """Cuts a message at 64 KiB."""

    async def on_text(self, text: str) -> None:
        await super().on_text(text[: 1 << 16])

    async def on_binary(self, data: bytes) -> None:
        await super().on_binary(data[: 1 << 16])


@mutant("lengths.text", "lengths.binary")
class RefusesLarge(Stream):
    """Closes with 1009 when a message has more than 64 KiB."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if len(payload) + (len(self.begun[1]) if self.begun else 0) > 1 << 16:
            raise Violation(1009, "too large")
        await super().on_data(fin, opcode, payload)


@mutant("messages.order")
class Merges(Stream):
    """Answers messages that come together with one."""

    async def run(self) -> None:
        self.waiting: list[str] = []
        self.answering: asyncio.Task[None] | None = None
        await super().run()

    async def on_text(self, text: str) -> None:
        self.waiting.append(text)
        if self.answering is None or self.answering.done():
            self.answering = asyncio.create_task(self.answer_all())

    async def answer_all(self) -> None:
        await asyncio.sleep(0.02)
        text, self.waiting = "".join(self.waiting), []
        await self.send(TEXT, text.encode())


class _AnswersLater(Stream):
    """Answers each text after :meth:`delay`, and meanwhile takes the next message."""

    def delay(self, text: str) -> float:
        raise NotImplementedError

    async def run(self) -> None:
        self.answering: set[asyncio.Task[None]] = set()
        await super().run()

    async def on_text(self, text: str) -> None:
        task = asyncio.create_task(self.answer_later(text))
        self.answering.add(task)
        task.add_done_callback(self.answering.discard)

    async def answer_later(self, text: str) -> None:
        await asyncio.sleep(self.delay(text))
        await self.send(TEXT, text.encode())


@mutant("messages.order")
class OutOfOrder(_AnswersLater):
    """Answers the shorter one of two messages first."""

    def delay(self, text: str) -> float:
        return min(0.2, 0.01 * len(text))


@mutant("messages.fragments")
class DropsContinuations(Stream):
    """Takes a message's first fragment for all of it."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        await super().on_data(fin, opcode, b"" if opcode == CONTINUATION else payload)


@mutant("messages.fragments")
class FragmentsAreMessages(Stream):
    """Answers each fragment by itself."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.check_order(opcode)
        kind = opcode or (self.begun or (TEXT,))[0]
        self.begun = None if fin else (kind, bytearray())
        if kind == TEXT:
            self.text_of(payload)
        await self.send(kind, payload)


@mutant("messages.binary_fragments")
class TextFragmentsOnly(Stream):
    """Refuses binary in fragments."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        if opcode == BINARY and not fin:
            raise Violation(1003, "one frame, please")
        await super().on_data(fin, opcode, payload)


@mutant("messages.empty_fragments")
class EmptyFragmentEnds(Stream):
    """Takes an empty fragment for the message's end."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        await super().on_data(fin or not payload, opcode, payload)


@mutant("messages.code_point")
class DecodesFragments(Stream):
    """Decodes each fragment by itself, so that a code point in two of them is lost."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        kind = opcode or (self.begun or (TEXT,))[0]
        if kind == TEXT:
            self.text_of(payload)
        await super().on_data(fin, opcode, payload)


@mutant("messages.many_fragments")
class FewFragments(Stream):
    """Takes a message in 100 fragments at most."""

    count = 0

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.count = 0 if opcode != CONTINUATION else self.count + 1
        if self.count > 100:
            raise Violation(1008, "too many fragments")
        await super().on_data(fin, opcode, payload)


@mutant("messages.binary")
class SniffsText(Stream):
    """Answers binary with text where it is UTF-8."""

    async def on_binary(self, data: bytes) -> None:
        try:
            await self.send(TEXT, data.decode().encode())
        except UnicodeDecodeError:
            await super().on_binary(data)


@mutant("messages.binary")
class TrimsBinary(Stream):
    """Takes white space off the ends of a binary message."""

    async def on_binary(self, data: bytes) -> None:
        await super().on_binary(data if len(data) == 256 else data.strip())


@mutant("messages.mask")
class NoZeroMask(Stream):
    """Takes a mask of zeros for none."""

    async def read_frame(self) -> tuple[bool, int, bytes]:
        head = await self.reader.readexactly(2)
        if 0x80 < head[1] < 0xFE:
            head += await self.reader.readexactly(4)
        if head[2:] == bytes(4):
            raise Violation(1002, "not masked")
        self.reader._buffer[:0] = head  # type: ignore[attr-defined]  (for the next read)
        return await super().read_frame()


@mutant("messages.order")
class DropsRepeats(Stream):
    """Takes a text that is the last one's like for the same."""

    last: str | None = None

    async def on_text(self, text: str) -> None:
        last, self.last = self.last, text
        if text != last or not text.startswith("message"):
            await super().on_text(text)


@mutant("messages.order")
class BinaryFirst(_AnswersLater):
    """Answers binary before the texts that came with it."""

    def delay(self, text: str) -> float:
        return 0.02


@mutant("messages.binary_fragments")
class TypeSticks(Stream):
    """Takes for binary what comes behind a binary message in fragments."""

    stuck = False

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.stuck = self.stuck or (opcode == BINARY and not fin)
        await super().on_data(fin, BINARY if self.stuck and opcode == TEXT else opcode, payload)


@mutant("messages.empty_fragments")
class NothingIsNoMessage(Stream):
    """Takes a message of which all fragments are empty for none."""

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        joined = self.begun[1] + payload if self.begun is not None else b"a message of one frame"
        if fin and not joined:
            self.begun = None
            return
        await super().on_data(fin, opcode, payload)


@mutant("messages.many_fragments")
class FewBinaryFragments(Stream):
    """Takes a binary message in 128 fragments at most."""

    count = 0

    async def on_data(self, fin: bool, opcode: int, payload: bytes) -> None:
        self.count = 0 if opcode != CONTINUATION else self.count + 1
        if self.count > 128 and self.begun is not None and self.begun[0] == BINARY:
            raise Violation(1008, "too many fragments")
        await super().on_data(fin, opcode, payload)
