"""Whole messages of a stream: parts joined, text decoded; and answers to questions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Self

from partway.gateway.client.errors import BadMessage, StreamEnded
from partway.gateway.limits import CLIENT_MAX_MESSAGE
from partway.protocol.parts import CompletionState, DataType, PayloadPart


class MessageReader:
    """Joins the parts of one stream to messages, for one reader at a time.

    An incomplete message is kept here. So a cancelled reader loses nothing, and the next one goes
    on from there.

    Args:
        receive: takes the stream's next part; None at the clean end.
    """

    def __init__(self, receive: Callable[[], Awaitable[PayloadPart | None]]) -> None:
        self._receive = receive
        self._data_type: DataType | None = None  # of the current message
        self._gathered = bytearray()  # its bytes; not a list, since parts may be countless
        self._skipping = False  # the current message is too large, and is dropped
        self._busy = False
        self._asking = asyncio.Lock()
        self._answer_owed = False

    async def next(self, max_message: int) -> str | bytes | None:
        """Return the next whole message, or None at the stream's clean end.

        Raises:
            BadMessage: the message cannot be given; the one after it can be read.
            PartwayError: the stream has ended otherwise; the error says how.
            RuntimeError: another task is reading messages.
        """
        with self._alone():
            return await self._next(max_message)

    async def ask(self, send: Callable[[], Awaitable[None]], max_message: int) -> str | bytes:
        """Send a message, and return the next one; simultaneous callers take turns.

        Raises:
            BadMessage: as :meth:`next`.
            PartwayError: as :meth:`next`; ``StreamEnded`` at the clean end.
            RuntimeError: another task is reading messages; or an earlier caller was cancelled after
                sending its question, so the next message is the answer to that question.
        """
        async with self._asking:
            with self._alone():
                if self._answer_owed:
                    raise RuntimeError(
                        "ask(): the previous call was cancelled before its answer came; that "
                        "answer is the next message, and must be read from messages() first"
                    )
                await send()
                try:
                    answer = await self._next(max_message)
                except asyncio.CancelledError:
                    self._answer_owed = True
                    raise
        if answer is None:
            raise StreamEnded("the stream has ended before an answer came")
        return answer

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if self._busy:
            raise RuntimeError(
                "another task waits for a message of this stream; ask() and messages() must not "
                "wait at the same time"
            )
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _next(self, max_message: int) -> str | bytes | None:
        while (part := await self._receive()) is not None:
            if self._data_type is None:
                self._data_type = part.data_type  # the first part's type is the message's
            whole = part.completion is CompletionState.COMPLETE
            if self._skipping:
                if whole:
                    self._forget()
            elif len(self._gathered) + len(part.payload) > max_message:
                self._forget()
                self._skipping, self._answer_owed = not whole, False
                raise BadMessage(
                    f"a message has more than {max_message} bytes (max_message); the rest of it "
                    "is dropped"
                )
            elif whole:
                self._answer_owed = False
                return self._taken(part.payload)
            else:
                self._gathered += part.payload
        if self._data_type is not None and not self._skipping:
            begun = len(self._gathered)
            self._forget()
            raise BadMessage(f"the stream has ended inside a message, after {begun} bytes of it")
        return None

    def _taken(self, last: bytes) -> str | bytes:
        """Return the current message, with its last part."""
        data_type, message = self._data_type, last
        if self._gathered:
            message = bytes(self._gathered + last)
        self._forget()
        if data_type is not DataType.UTF8:
            return message
        try:
            return message.decode()
        except UnicodeDecodeError as error:
            raise BadMessage(
                f"a text message of {len(message)} bytes is not UTF-8 at byte {error.start}: "
                f"{error.reason}"
            ) from None

    def _forget(self) -> None:
        self._data_type, self._skipping = None, False
        self._gathered = bytearray()


class MessageIterator:
    """An async iterator of a stream's whole messages; made by ``ClientStream.messages``."""

    def __init__(self, reader: MessageReader, max_message: int = CLIENT_MAX_MESSAGE) -> None:
        self._reader = reader
        self._max_message = max_message

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str | bytes:
        message = await self._reader.next(self._max_message)
        if message is None:
            raise StopAsyncIteration
        return message
