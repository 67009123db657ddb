"""The client for code without asyncio: scripts, notebooks, threads.

::

    with connect_sync("http://127.0.0.1:8090", "echo") as stream:
        print(stream.ask("hello", timeout=10))  # hello

A thread with an event loop of its own carries each stream. So the caller's thread may run a loop or
not; a notebook's does.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, Generic, ParamSpec, Self, TypeVar

from partway.gateway.client import connect
from partway.gateway.client.errors import StreamEnded
from partway.gateway.client.messages import MessageIterator
from partway.gateway.client.stream import ClientStream
from partway.gateway.limits import CLIENT_MAX_MESSAGE
from partway.protocol.parts import PayloadPart

_P = ParamSpec("_P")
_T = TypeVar("_T")

#: Seconds for an idle resolver to respond.
_RESOLVER_PATIENCE: Final = 1.0


class _Call(Generic[_T]):
    """One call of a coroutine function on the loop's thread, for another thread that waits."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, _T]]) -> None:
        self._function = function
        self._task: asyncio.Task[_T] | None = None
        self._cancelled = False
        self.outcome: Future[_T] = Future()

    def begin(self) -> None:
        if self._cancelled:
            self.outcome.cancel()
            return
        self._task = asyncio.get_running_loop().create_task(self._function())
        self._task.add_done_callback(self._over)

    def cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _over(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self.outcome.cancel()
        elif (error := task.exception()) is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class LoopThread:
    """A thread with an event loop of its own, from the beginning of a ``with`` block to its end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._resolver = ThreadPoolExecutor(1, "partway-client-resolver")
        self._loop.set_default_executor(self._resolver)
        # A daemon thread: an interpreter must be able to end without leaving the block.
        self._thread = threading.Thread(target=self._serve, name="partway-client", daemon=True)
        self._leaving = threading.Lock()
        self._left = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._leaving:
            self._left = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def run(
        self,
        function: Callable[_P, Coroutine[Any, Any, _T]],
        *arguments: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        """Run a coroutine function on the loop, and wait; called from any thread but the loop's.

        An interrupt of the caller, such as Ctrl-C, cancels the function. The loop's thread calls
        the function: an interrupt between making a coroutine here and starting it there would leave
        one that is never awaited.

        Raises:
            StreamEnded: the block has been left, before the call or during it.
            BaseException: an error of the function.
        """
        call = _Call(partial(function, *arguments, **named))
        try:
            self._begin(call)
            return call.outcome.result()
        except CancelledError:
            raise _left() from None
        except BaseException:
            if not call.outcome.done():  # the caller was interrupted
                with suppress(RuntimeError):  # another thread has ended the loop since
                    self._loop.call_soon_threadsafe(call.cancel)
            raise

    def _begin(self, call: _Call[_T]) -> None:
        with self._leaving:
            if self._left:
                raise _left()
            self._loop.call_soon_threadsafe(call.begin)

    def soon(self, callback: Callable[..., object], *arguments: object) -> None:
        self._loop.call_soon_threadsafe(callback, *arguments)

    def _serve(self) -> None:
        loop = self._loop
        try:
            loop.run_forever()
        finally:
            remaining = asyncio.all_tasks(loop)
            for task in remaining:
                task.cancel()
            if remaining:
                loop.run_until_complete(asyncio.gather(*remaining, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            self._end_resolver()
            loop.close()

    def _end_resolver(self) -> None:
        """End the thread that looks up names, unless it waits for a server that does not answer.

        Such a wait may take minutes and cannot be stopped, and ``asyncio.run()`` would wait for it.
        """
        try:
            self._resolver.submit(int).result(_RESOLVER_PATIENCE)
        except TimeoutError:
            self._resolver.shutdown(wait=False, cancel_futures=True)
        else:
            self._resolver.shutdown()


def _left() -> StreamEnded:
    return StreamEnded("the stream's `with` block has ended")


class SyncStream:
    """An open stream; made by :func:`connect_sync`.

    Its methods are those of :class:`~partway.gateway.client.stream.ClientStream`, and wait until
    they are done. ``timeout`` bounds a wait in seconds; without it a call waits for as long as the
    stream lasts. ``TimeoutError`` says that the time is over. Then nothing has been sent, except
    for a question of :meth:`ask`, and later calls can still receive.

    Any thread may call any method, and several may at once: one sends while another receives.

    Attributes:
        request_id: the gateway's id of the stream, as in its log.
        input_end: as in :class:`~partway.gateway.client.stream.ClientStream`.
    """

    def __init__(self, stream: ClientStream, thread: LoopThread) -> None:
        self.request_id = stream.request_id
        self.input_end = stream.input_end
        self._stream = stream
        self._thread = thread

    # --- Sending ---------------------------------------------------------------------------------

    def send(self, part: PayloadPart, *, timeout: float | None = None) -> None:
        """Send one part; see :meth:`.ClientStream.send`."""
        self._run(timeout, self._stream.send, part)

    def send_text(self, text: str, *, partial: bool = False, timeout: float | None = None) -> None:
        """Send text; ``partial`` if more of the same message follows."""
        self._run(timeout, self._stream.send_text, text, partial=partial)

    def send_bytes(
        self, data: bytes, *, partial: bool = False, timeout: float | None = None
    ) -> None:
        """Send bytes; ``partial`` if more of the same message follows."""
        self._run(timeout, self._stream.send_bytes, data, partial=partial)

    def end_input(self, *, timeout: float | None = None) -> None:
        """End the input; see :meth:`.ClientStream.end_input`."""
        self._run(timeout, self._stream.end_input)

    # --- Receiving -------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[PayloadPart]:
        return iter(self.receive, None)

    def receive(self, *, timeout: float | None = None) -> PayloadPart | None:
        """Return the next part, or None at the clean end; see :meth:`.ClientStream.receive`."""
        return self._run(timeout, self._stream.receive)

    def messages(
        self, *, max_message: int = CLIENT_MAX_MESSAGE, timeout: float | None = None
    ) -> Iterator[str | bytes]:
        """Return an iterator of whole messages; see :meth:`.ClientStream.messages`.

        Args:
            max_message: most bytes of a message.
            timeout: seconds for each message. After a ``TimeoutError`` the iterator goes on.
        """
        messages = self._stream.messages(max_message=max_message)
        return iter(lambda: self._run(timeout, _following, messages), None)

    def ask(
        self,
        message: str | bytes,
        *,
        max_message: int = CLIENT_MAX_MESSAGE,
        timeout: float | None = None,
    ) -> str | bytes:
        """Send one whole message, and return the next that comes; see :meth:`.ClientStream.ask`.

        Args:
            max_message: most bytes of the answer.
            timeout: seconds for both. After a ``TimeoutError``, :meth:`messages` must take the
                answer before the next question.
        """
        return self._run(timeout, self._stream.ask, message, max_message=max_message)

    # --- Leaving ---------------------------------------------------------------------------------

    def close(self, *, cancel: bool = False) -> None:
        """Leave the stream, and close the connection; see :meth:`.ClientStream.close`.

        After the block, which has closed both, it does nothing.
        """
        with suppress(StreamEnded):
            self._run(None, self._stream.close, cancel=cancel)

    def _run(
        self,
        timeout: float | None,
        call: Callable[_P, Awaitable[_T]],
        *arguments: _P.args,
        **named: _P.kwargs,
    ) -> _T:
        async def bounded() -> _T:
            try:
                async with asyncio.timeout(timeout) as limit:
                    return await call(*arguments, **named)
            except TimeoutError:
                if not limit.expired():  # the call's own
                    raise
                raise TimeoutError(f"not done within {timeout:g} s (timeout)") from None

        return self._thread.run(bounded)


async def _following(messages: MessageIterator) -> str | bytes | None:
    return await anext(messages, None)


def _with_parameters_of(
    model: Callable[_P, object],
) -> Callable[[Callable[..., _T]], Callable[_P, _T]]:
    """Give a function with any parameters the signature of another one."""

    def give(function: Callable[..., _T]) -> Callable[_P, _T]:
        own = inspect.signature(function).return_annotation
        signature = inspect.signature(model).replace(return_annotation=own)
        function.__signature__ = signature  # type: ignore[attr-defined]
        return function

    return give


@_with_parameters_of(connect)
@contextmanager
def connect_sync(*arguments: Any, **named: Any) -> Iterator[SyncStream]:
    """Open a stream as :func:`~partway.gateway.client.connect` does, for code without asyncio.

    It takes the same arguments, and raises the same errors. The block owns a thread, which carries
    the stream; both end with the block. Leaving takes at most 5 s if the gateway does not answer.
    Ctrl-C in the block or on its entry is an exception like any other: it ends the waiting call,
    and cancels the stream.

    In a thread that runs an event loop, such as a notebook's, a call blocks that loop while it
    waits.
    """
    with LoopThread() as thread:
        opened = connect(*arguments, **named)
        stream = thread.run(_entered, opened)
        try:
            try:
                yield SyncStream(stream, thread)
            except BaseException as error:
                thread.run(_exited, opened, error)
                raise
            thread.run(_exited, opened, None)
        finally:
            # If the exit was interrupted, the connection is still there; otherwise this has no
            # effect.
            thread.soon(stream.broken, "the stream's `with` block has ended")


async def _entered(opened: AbstractAsyncContextManager[ClientStream]) -> ClientStream:
    return await opened.__aenter__()


async def _exited(
    opened: AbstractAsyncContextManager[ClientStream], error: BaseException | None
) -> None:
    if error is None:
        await opened.__aexit__(None, None, None)
    else:
        await opened.__aexit__(type(error), error, error.__traceback__)
