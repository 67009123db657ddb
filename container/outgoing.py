"""Outgoing messages of a handler, sent one after the other, whole or in fragments."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from partway.protocol.parts import PayloadPart
from partway.protocol.websocket.frames import Frame, Opcode, PartsToFrames

_new = tuple.__new__  # as in partway.protocol.websocket.frames
_CONTINUATION = Opcode.CONTINUATION
_TEXT = Opcode.TEXT
_BINARY = Opcode.BINARY


class Outbox:
    """Outgoing messages of one stream.

    Any number of tasks may send; fragments of two messages never mix (RFC 6455 §5.4).

    Args:
        write: writes a frame at once.
        clear: whether a frame may be written at once; called before each frame.
        writable: called if ``clear`` says no. It returns when a frame may be written, or raises if
            none may be written again.
    """

    def __init__(
        self,
        write: Callable[[Frame], None],
        clear: Callable[[], bool],
        writable: Callable[[], Awaitable[None]],
    ) -> None:
        self._write = write
        self._clear = clear
        self._writable = writable
        self._parts = PartsToFrames()
        #: The message whose ``async with`` block is open.
        self._open: OutgoingMessage | None = None
        #: The message whose block was left by an exception, before its end.
        self._torn: OutgoingMessage | None = None
        #: Number of sent parts, and their bytes.
        self.parts_out = 0
        self.bytes_out = 0

    async def send(self, message: str | bytes) -> None:
        if isinstance(message, str):
            frame = _new(Frame, (_TEXT, message.encode(), True))
        elif isinstance(message, bytes | bytearray | memoryview):
            frame = Frame(_BINARY, bytes(message))
        else:
            raise TypeError(f"a message must be str or bytes, not {type(message).__name__}")
        if not self._at_once():
            await self._my_turn()
        self.write(frame)

    async def send_part(self, part: PayloadPart) -> None:
        if not isinstance(part, PayloadPart):
            raise TypeError(
                f"a part must be a PayloadPart, not {type(part).__name__}; "
                "send() takes str and bytes"
            )
        if self._parts.mid_message:  # the sender of these parts already has the turn
            await self.writable()
        elif not self._at_once():
            await self._my_turn()
        self.write(self._parts.frame(part))

    async def begin(self, message: OutgoingMessage) -> None:
        """Wait for the turn of a message in fragments."""
        if not self._at_once():
            await self._my_turn()
        self._open = message

    def end(self, message: OutgoingMessage, *, torn: bool) -> None:
        """Pass the turn to the next message."""
        self._open = None
        if torn:
            self._torn = message

    def cut(self) -> None:
        """Prepare for a Close: send the held fragment, and leave its message unfinished."""
        for message in (self._torn, self._open):
            if message is not None:
                message.release(fin=False)
        self._torn = None

    def write(self, frame: Frame) -> None:
        self.parts_out += 1
        self.bytes_out += len(frame.payload)
        self._write(frame)

    async def writable(self) -> None:
        if not self._clear():
            await self._writable()

    def _at_once(self) -> bool:
        """Whether a message may begin without waiting; usually so, which saves a coroutine."""
        between = self._open is None and self._torn is None and not self._parts.mid_message
        return between and self._clear()

    async def _my_turn(self) -> None:
        while True:
            await self._writable()
            if self._open is None:
                break
            await self._open.wait_end()
        if self._parts.mid_message:
            raise RuntimeError(
                "send_part() has begun a message: its COMPLETE part must be sent first"
            )
        if self._torn is not None:
            torn, self._torn = self._torn, None
            torn.release(fin=True)


class OutgoingMessage:
    """One message in fragments (:class:`partway.container.stream.Outgoing`), as a context manager.

    One fragment is held back, so that the last one carries FIN, and no empty frame is needed.
    """

    def __init__(self, outbox: Outbox, *, text: bool) -> None:
        self._outbox = outbox
        self._text = text
        self._opcode = _TEXT if text else _BINARY
        self._held: bytes | None = None
        self._task: asyncio.Task[object] | None = None
        self._ended = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self._outbox.begin(self)
        self._task = asyncio.current_task()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        whole = False
        try:
            if error is None:
                await self._outbox.writable()
                self._held = self._held or b""
                self.release(fin=True)
                whole = True
        finally:
            self._outbox.end(self, torn=not whole)
            self._ended.set()

    async def send(self, fragment: str | bytes) -> None:
        if self._ended.is_set():
            raise RuntimeError("the message's block is over: its fragments must be sent inside it")
        if not isinstance(fragment, str if self._text else bytes | bytearray | memoryview):
            wanted = "str" if self._text else "bytes"
            kind = type(fragment).__name__
            raise TypeError(
                f"this message's fragments must be {wanted}, not {kind}: see message(text=…)"
            )
        payload = fragment.encode() if isinstance(fragment, str) else bytes(fragment)
        if self._held is not None:
            await self._outbox.writable()
            self.release(fin=False)
        self._held = payload

    def release(self, *, fin: bool) -> None:
        if self._held is not None:
            payload, self._held = self._held, None
            self._outbox.write(Frame(self._opcode, payload, fin))
            self._opcode = _CONTINUATION

    async def wait_end(self) -> None:
        """Wait for the end of the block.

        Raises:
            RuntimeError: the waiting task has itself opened the block.
        """
        if self._task is asyncio.current_task():
            raise RuntimeError("a message is open in this task: its block must be left first")
        await self._ended.wait()
