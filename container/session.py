"""One stream as an object: its state in attributes, its events in methods."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from partway.container.errors import ModelError, log_failure
from partway.container.limits import SESSION_CLOSED_TIMEOUT
from partway.container.stream import Stream
from partway.log_lines import LogLine
from partway.protocol.websocket.close_codes import UNSUPPORTED_DATA

_Model = TypeVar("_Model")
_Result = TypeVar("_Result")

_log = logging.getLogger("partway.container.session")


class Session(Generic[_Model]):
    """The state of one stream; override the methods for the events that matter.

    ::

        class Talk(Session["Talker"]):
            async def opened(self) -> None:
                self.turns: list[str] = []

            async def text(self, message: str) -> None:
                self.turns.append(message)
                await self.stream.send(f"turn {len(self.turns)}")


        class Talker(Model):
            async def stream(self, stream: Stream) -> None:
                await Talk(self, stream).run()

    Methods run one after the other: the next message waits until the method for the last one has
    returned. An answer that a message may interrupt runs in a task of :meth:`spawn`. An exception
    of a method or of such a task ends the stream, as one of a handler does.
    """

    def __init__(self, model: _Model, stream: Stream) -> None:
        self.model = model
        self.stream = stream
        self._group: asyncio.TaskGroup | None = None
        self._spawned: set[asyncio.Task[Any]] = set()

    # --- To override -----------------------------------------------------------------------------

    async def opened(self) -> None:
        """Begin; called once, before any message."""

    async def text(self, message: str) -> None:
        """Take a text message; by default text is refused with Close 1003."""
        raise self._unsupported("text")

    async def binary(self, message: bytes) -> None:
        """Take a binary message; by default binary messages are refused with Close 1003."""
        raise self._unsupported("binary")

    async def ended(self) -> None:
        """Note that the client has ended its input; the session may still send."""

    async def closed(self) -> None:
        """Release what the session holds; called last, whatever the end was, within 2 s.

        It is called after a failure and a cancellation too, also of :meth:`opened`. Its exception
        is logged, and changes nothing about the stream's end.
        """

    # --- For handlers and methods ----------------------------------------------------------------

    async def run(self) -> None:
        """Call the methods for the stream's events; return when the input and all tasks have ended.

        Raises:
            ExceptionGroup: a method or a task of :meth:`spawn` has failed.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await self.opened()
                async for message in self.stream.messages():
                    if isinstance(message, str):
                        await self.text(message)
                    else:
                        await self.binary(message)
                if not self.stream.closed:
                    await self.ended()
        finally:
            self._group = None
            await self._close()

    def spawn(self, coroutine: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        """Run a coroutine in a task of this session, beside the methods.

        :meth:`run` waits for the task. The task is cancelled when the session fails, or when the
        handler is cancelled.

        Raises:
            RuntimeError: the session does not run.
        """
        if self._group is None:
            coroutine.close()
            raise RuntimeError("spawn() was called outside of run()")
        task = self._group.create_task(coroutine)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)
        return task

    async def interrupt(self) -> bool:
        """Cancel all tasks of :meth:`spawn`, and wait for their end; return whether one ran."""
        tasks = self._spawned - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if not tasks:
            return False
        await asyncio.wait(tasks)  # awaiting a task would hide a cancellation of our own
        return True

    # --- Inside ----------------------------------------------------------------------------------

    async def _close(self) -> None:
        limit = asyncio.timeout(SESSION_CLOSED_TIMEOUT)
        try:
            async with limit:
                await self.closed()
        except Exception as error:
            if limit.expired():
                late = "the session's closed() takes too long"
                _log.warning(
                    LogLine(late, request_id=self.stream.id, seconds=SESSION_CLOSED_TIMEOUT)
                )
            else:
                log_failure(_log, "session's closed()", error, request_id=self.stream.id)

    def _unsupported(self, came: str) -> ModelError:
        kind = type(self)
        taken = [
            name
            for name, method, default in (
                ("text", kind.text, Session.text),
                ("binary", kind.binary, Session.binary),
            )
            if method is not default
        ]
        takes = f"{taken[0]} messages only" if taken else "no messages"
        return ModelError(
            f"a {came} message came; this model takes {takes}", code=UNSUPPORTED_DATA, status=415
        )
