"""The client for code without asyncio: scripts, notebooks, threads.

::

    with connect_sync("http://127.0.0.1:8090", "echo") as stream:
        print(stream.ask("hello", timeout=10))  # hello

A thread with an event loop of its own carries each stream, so that it makes no difference whether
the caller's thread runs a loop, as a notebook's does.
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

#: Seconds for a resolver that has nothing to do to say so.
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
        # A daemon: an interpreter that is to end does not wait for a block that nobody leaves.
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

        An interrupt of the caller, such as Ctrl-C, cancels what the function does. The loop's
        thread calls it, for an interrupt between a coroutine's making here and its start there
        would leave one that nobody awaits.

        Raises:
            StreamEnded: the block has been left, before the call or during it.
            BaseException: what the function raises.
        """
        call = _Call(partial(function, *arguments, **named))
        try:
            self._begin(call)
            return call.outcome.result()
        except CancelledError:
            raise _left() from None
        except BaseException:
            if not call.outcome.done():  # it is the caller that was interrupted
                with suppress(RuntimeError):  # another thread has ended the loop since
                    self._loop.call_soon_threadsafe(call.cancel)
            raise

    def _begin(self, call: _Call[_T]) -> None:
        with self._leaving:
            if self._left:
                raise _left()
            self._loop.call_soon_threadsafe(call.begin)

    def soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call something on the loop, without waiting for it."""
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
        """End the thread that looks up names, unless it asks a server that does not answer.

        That may take minutes, nothing can stop it, and ``asyncio.run()`` would wait for it.
        """
        try:
            self._resolver.submit(int).result(_RESOLVER_PATIENCE)
        except TimeoutError:
            self._resolver.shutdown(wait=False, cancel_futures=True)
        else:
            self._resolver.shutdown()


def _left() -> StreamEnded:
    return StreamEnded("the stream's block has been left")


class SyncStream:
    """An open stream; made by :func:`connect_sync`.

    Its methods are those of :class:`~partway.gateway.client.stream.ClientStream`, and wait until
    they are done. ``timeout`` bounds a wait in seconds; without it a call waits for as long as the
    stream lasts. ``TimeoutError`` says that the time is over: what was to be sent has not been, but
    for a question of :meth:`ask`, and what is to come can still be waited for.

    Any thread may call any method, and several may at once: one sends while another receives.

    Args:
        stream: the stream, which lives on ``thread``.
        thread: carries the stream.

    Attributes:
        request_id: the gateway's id of the stream, as in its log.
        input_end: what the gateway does when the input ends, as of the twin.
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
        """Say that nothing more will be sent; see :meth:`.ClientStream.end_input`."""
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
            message: what to send.
            max_message: most bytes of the answer.
            timeout: seconds for both. Whoever gets a ``TimeoutError`` takes the answer from
                :meth:`messages`, or asks no more.
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
    """Give a function that takes anything the parameters of another one."""

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
    the stream; after it nothing of the two is left. Leaving takes 5 s at most where the gateway
    does not say goodbye. Ctrl-C in the block, or while it is entered, is an exception like any
    other: it ends the call that waits, and cancels the stream.

    In a thread that runs an event loop, such as a notebook's, a call holds up that loop while it
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
            # A goodbye that was interrupted has left the connection; another has left none.
            thread.soon(stream.broken, "the stream's block has been left")


async def _entered(opened: AbstractAsyncContextManager[ClientStream]) -> ClientStream:
    return await opened.__aenter__()


async def _exited(
    opened: AbstractAsyncContextManager[ClientStream], error: BaseException | None
) -> None:
    if error is None:
        await opened.__aexit__(None, None, None)
    else:
        await opened.__aexit__(type(error), error, error.__traceback__)
