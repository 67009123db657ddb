"""WSGI applications as ASGI apps, by a2wsgi, with bounded threads.

a2wsgi runs a request on a thread, and does not end the thread when its client leaves. Here a thread
stops at its next chunk. A thread that makes no chunk holds its place only as long as it runs, and
does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from a2wsgi.wsgi import WSGIResponder

from partway.container.hosting.asgi_messages import (
    Message,
    Receive,
    Scope,
    Send,
    refuse,
    refuse_upgrade,
)
from partway.container.limits import CANCEL_GRACE, QUEUE_LENGTH
from partway.container.serving.platform_requests import PING
from partway.container.threads import post

#: Requests that an app answers at a time; a2wsgi uses the same number.
WSGI_THREADS = 10

#: Chunks of an answer that its client has not taken, before the thread waits; a2wsgi uses the same
#: number.
_CHUNKS_HELD = 10

WsgiCallable = Callable[..., Any]
_Result = TypeVar("_Result")


class WsgiApp:
    """A WSGI application as an ASGI app, for requests only.

    ``/ping`` has its own thread, so that a busy app does not look unhealthy. A request's body is
    read before its thread begins, so that no thread waits for a client.

    Args:
        app: takes ``(environ, start_response)``.
        threads: number of requests that the app answers at a time.
        queue: number of requests that may wait; above it a client gets 503.
    """

    def __init__(
        self, app: WsgiCallable, threads: int = WSGI_THREADS, queue: int = QUEUE_LENGTH
    ) -> None:
        self._app = app
        self._requests = _Places(threads, queue)
        self._pings = _Places(1, queue)
        self._calls: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await refuse_upgrade(send, 501, "this is a WSGI app: it takes requests, not streams")
        else:
            await self._request(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        for call in self._calls:
            call.cancel()
        if self._calls:
            await asyncio.wait(self._calls, timeout=CANCEL_GRACE)
        await send({"type": "lifespan.shutdown.complete"})

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        places = self._pings if scope["path"] == PING else self._requests
        if places.full:
            await refuse(send, 503, f"{places.limit} requests are under way, and that is the limit")
            return
        with places.taken():
            body = await _whole(receive)
            if body is not None:
                await places.thread.acquire()
                await self._call(scope, body, receive, send, places.thread)

    async def _call(
        self,
        scope: Scope,
        body: deque[Message],
        receive: Receive,
        send: Send,
        place: asyncio.Semaphore,
    ) -> None:
        unwanted = threading.Event()
        relay = _Relay(send, unwanted)
        thread = _Thread(place)

        async def replay() -> Message:
            return body.popleft() if body else {"type": "http.disconnect"}

        responder = WSGIResponder(
            _stopping_at(unwanted, self._app), cast("ThreadPoolExecutor", thread), _CHUNKS_HELD
        )
        answering = responder(scope, replay, relay.send)  # type: ignore[arg-type]
        call = asyncio.create_task(answering, name="wsgi")
        watcher = asyncio.create_task(_disconnected(receive, unwanted))
        self._calls.add(call)
        call.add_done_callback(self._on_called)
        try:
            # If it were cancelled, a2wsgi would stop reading the thread's output, and the thread
            # would wait forever.
            await asyncio.shield(call)
        finally:
            unwanted.set()
            watcher.cancel()
            if call.done() and not thread.begun:
                place.release()
        if relay.failure is not None:
            raise relay.failure

    def _on_called(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # a caller that still waits gets the exception


class _Places:
    """Threads, and the requests that wait for a free one."""

    def __init__(self, threads: int, queue: int) -> None:
        self.thread = asyncio.Semaphore(threads)
        self.limit = threads + queue
        self._taken = 0

    @property
    def full(self) -> bool:
        return self._taken >= self.limit

    @contextmanager
    def taken(self) -> Iterator[None]:
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1


class _Thread(Executor):
    """An executor for one call, on a daemon thread, which gives its place back when it ends."""

    def __init__(self, place: asyncio.Semaphore) -> None:
        self._place = place
        self._loop = asyncio.get_running_loop()
        self.begun = False

    def submit(self, fn: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> Future[_Result]:
        future: Future[_Result] = Future()
        future.set_running_or_notify_cancel()
        self.begun = True

        def run() -> None:
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            finally:
                post(self._loop, self._place.release)

        threading.Thread(target=run, name="partway-wsgi", daemon=True).start()
        return future


class _Relay:
    """A thread's output, on its way to a client that may leave.

    It takes everything and never raises; otherwise a2wsgi's thread would wait forever.

    Attributes:
        failure: the exception that sending raised; None if it raised nothing.
    """

    def __init__(self, send: Send, unwanted: threading.Event) -> None:
        self._send = send
        self._unwanted = unwanted
        self.failure: Exception | None = None

    async def send(self, message: Any) -> None:
        if self._unwanted.is_set():
            return
        try:
            await self._send(message)
        except Exception as error:
            self.failure = error
            self._unwanted.set()


def _stopping_at(unwanted: threading.Event, app: WsgiCallable) -> WsgiCallable:
    """Wrap the app so that its answer ends at the next chunk once nobody wants more."""

    def chunks(body: Any) -> Iterator[bytes]:
        try:
            for chunk in body:
                if unwanted.is_set():
                    return
                yield chunk
        finally:
            if hasattr(body, "close"):
                body.close()

    def call(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        environ["wsgi.errors"] = sys.stderr  # a2wsgi writes errors to stdout
        return chunks(app(environ, start_response))

    return call


async def _whole(receive: Receive) -> deque[Message] | None:
    """Read a request's body, message by message; None if the client leaves before its end."""
    messages: deque[Message] = deque()
    while not messages or messages[-1].get("more_body", False):
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        messages.append(message)
    return messages


async def _disconnected(receive: Receive, unwanted: threading.Event) -> None:
    await receive()
    unwanted.set()
