"""Middleware for a hosted app: it adds the parts of the contract that the app lacks (section 1.1).

The app's own answers pass unchanged.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any

from partway.container.activity import NO_PAGES, Activity, check_not_a_page, is_from_a_page
from partway.container.errors import log_failure, reason_of
from partway.container.hosting.asgi_messages import (
    App,
    Message,
    Receive,
    Scope,
    Send,
    answer,
    refuse,
    refuse_upgrade,
)
from partway.container.hosting.asgi_request import BoundedBody, HeldAnswer, PassedAnswer
from partway.container.hosting.asgi_stream import HostedStream
from partway.container.limits import BODY_TIMEOUT, HEALTH_TIMEOUT, MAX_BODY_BYTES, MAX_RUNNING
from partway.container.model import Model
from partway.container.runtime import EXECUTION_PARAMETERS
from partway.container.serving.platform_requests import PING
from partway.log_lines import LogLine
from partway.protocol.websocket.handshake import UpgradeError

_log = logging.getLogger("partway.container.app")

#: The answer to a batch transform's question about parameters, if the app has none.
_PARAMETERS = {
    "MaxConcurrentTransforms": Model.max_concurrent_transforms,
    "BatchStrategy": "MULTI_RECORD",
    "MaxPayloadInMB": Model.max_payload_mb,
}

_OF_A_BODY = frozenset({b"content-length", b"content-type", b"transfer-encoding"})


class Guard:
    """An ASGI app around a hosted one.

    Args:
        max_running: most streams and requests under way, not counting ``/ping``.
        max_body: largest body of a request.
        body_timeout: seconds spent waiting for a body in all.
        ping_timeout: seconds that the app has for ``/ping``.
    """

    def __init__(
        self,
        *,
        max_running: int = MAX_RUNNING,
        max_body: int = MAX_BODY_BYTES,
        body_timeout: float = BODY_TIMEOUT,
        ping_timeout: float = HEALTH_TIMEOUT,
    ) -> None:
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._ping_timeout = ping_timeout
        self._app: App | None = None
        self._state: Mapping[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._made = self._loop.time()
        self._asked: set[asyncio.Task[None]] = set()
        self._aborted = False
        self._trouble: str | None = None
        #: The streams and requests that are under way.
        self.activity = Activity(max_running, self._unready)

    def let_answer(self, app: App, state: Mapping[str, Any]) -> None:
        """Pass requests to the app from now on; each request gets a copy of the state."""
        self._app = app
        self._state = state

    async def abort(self, grace: float) -> None:
        """Cancel the app's tasks; those that ignore it are left after ``grace`` seconds."""
        self._aborted = True
        ignoring = await self.activity.cancel(grace, self._asked)
        if ignoring:
            ignored = "handlers of the app ignore their cancellation"
            _log.warning(LogLine(ignored, handlers=len(ignoring)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"] = dict(self._state)
        try:
            if scope["type"] == "websocket":
                await self._stream(scope, receive, send)
            elif scope["path"] == PING and scope["method"] in ("GET", "POST"):
                await self._ping(scope, receive, send)
            else:
                await self._request(scope, receive, send)
        except asyncio.CancelledError:
            # uvicorn, the caller, would log its own cancelling as a fault of the app.
            if not self._aborted:
                raise

    # --- Streams and requests --------------------------------------------------------------------

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            check_not_a_page(_headers(scope))
            self.activity.check_stream()
        except UpgradeError as error:
            await refuse_upgrade(send, error.status, error.reason)
            return
        stream = HostedStream(receive, send)
        with self.activity.open(stream), self.activity.counted():
            await stream.run(self._loaded_app(), scope)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        if is_from_a_page(_headers(scope)):
            await refuse(send, 403, NO_PAGES)
            return
        obstacle = self.activity.obstacle()
        if obstacle is not None:
            await refuse(send, 503, obstacle)
            return
        body = BoundedBody(receive, self._max_body, self._body_timeout)
        stands_in = scope["path"] == EXECUTION_PARAMETERS and scope["method"] == "GET"
        said = PassedAnswer(
            send, lambda status: body.fault is not None or (stands_in and status == 404)
        )
        with self.activity.counted():
            if body.fits(scope):
                try:
                    await self._loaded_app()(scope, body.receive, said.send)
                except Exception:
                    if body.fault is None or said.begun:
                        raise
            if said.begun:
                return
            if body.fault is not None:
                await refuse(send, *body.fault)
            elif said.replaced:
                await answer(send, 200, json.dumps(_PARAMETERS).encode(), "application/json")

    # --- Health ----------------------------------------------------------------------------------

    async def _ping(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer ``/ping`` (clause 1.1-2), with the app's own answer if it has one."""
        try:
            said = await self._health(scope, receive)
        except _Unwell as trouble:
            self._speak_of(trouble.reason)
            await refuse(send, 503, trouble.reason)
            return
        self._speak_of(None)
        if said.status in (404, 405):  # the app has no /ping, with either method
            await answer(send, 200)
            return
        for message in said.messages:
            await send(message)

    async def _health(self, scope: Scope, receive: Receive) -> HeldAnswer:
        absence = self.activity.absence()
        if absence is not None:
            raise _Unwell(absence)
        if any(task.cancelling() for task in self._asked):
            raise _Unwell(f"the app is still answering an earlier {PING}")
        body = BoundedBody(receive, self._max_body, self._body_timeout)
        try:
            async with asyncio.timeout(self._ping_timeout):
                said = await self._ask(scope, body.receive)
                if said.status == 405:
                    said = await self._ask(_with_other_method(scope), _no_body())
        except TimeoutError:
            raise _Unwell(f"the app's {PING} took longer than {self._ping_timeout:g} s") from None
        return said

    async def _ask(self, scope: Scope, receive: Receive) -> HeldAnswer:
        said = HeldAnswer()
        call = self._loaded_app()(scope, receive, said.send)
        task = asyncio.create_task(_finish(call), name="ping")
        self._asked.add(task)
        task.add_done_callback(self._on_asked)
        try:
            await asyncio.wait((task, said.whole), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not said.whole.done():
            error = task.exception()
            raise _Unwell(reason_of(error) if error else f"the app gave no answer to {PING}")
        if said.too_long:
            task.cancel()
            raise _Unwell(f"the app's answer to {PING} is too long")
        return said

    def _on_asked(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log_failure(_log, PING, error)

    def _speak_of(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            if trouble is None:
                _log.info("the app is healthy")
            else:
                _log.warning(LogLine("/ping answers 503", reason=trouble))

    # --- The app ---------------------------------------------------------------------------------

    def _loaded_app(self) -> App:
        assert self._app is not None, "nothing is asked of an app that is absent"
        return self._app

    def _unready(self) -> str | None:
        if self._app is None:
            return f"the app has been loading for {self._loop.time() - self._made:.0f} s"
        return None


def _headers(scope: Scope) -> Iterator[tuple[str, str]]:
    return ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])


class _Unwell(Exception):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def _finish(call: Awaitable[None]) -> None:
    """Wrap an awaitable in a coroutine, which a task needs."""
    await call


def _with_other_method(scope: Scope) -> Scope:
    """Return the same ping by GET instead of POST, or the reverse, without a body."""
    headers = [(name, value) for name, value in scope["headers"] if name not in _OF_A_BODY]
    method = "GET" if scope["method"] == "POST" else "POST"
    return {**scope, "method": method, "headers": headers}


def _no_body() -> Receive:
    """Make a ``receive`` for a request without a body, whose client stays."""
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    leaving: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

    async def receive() -> Message:
        return messages.pop() if messages else await leaving

    return receive
