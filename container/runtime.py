"""The HTTP and WebSocket surface of the contract, before one model.

The clauses are those of section 1.1; streams are 1.1-4.

aiohttp parses every request, upgrades included. An upgrade's connection then belongs to its
:class:`~partway.container.websocket_stream.WebSocketStream`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncIterable, Mapping
from contextlib import aclosing
from typing import cast

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from multidict import CIMultiDict, CIMultiDictProxy

from partway.container.activity import (
    NO_PAGES,
    STOPPING,
    Activity,
    check_not_a_page,
    is_from_a_page,
)
from partway.container.bodies import SERVER, Answering, once, received, refusal, unread
from partway.container.bounded_heads import BoundedServer
from partway.container.errors import (
    BodyError,
    ModelError,
    TooSlow,
    cause_of,
    log_failure,
    reason_of,
)
from partway.container.health import Health
from partway.container.limits import (
    ADMIT_TIMEOUT,
    ANSWER_TIMEOUT,
    BODY_TIMEOUT,
    FINISH_TIMEOUT,
    MAX_BODY_BYTES,
    MAX_RUNNING,
    PLATFORM_PROBES,
    PLATFORM_SILENCE,
)
from partway.container.model import Model, Opening, Reply, Request
from partway.container.predict_body import PredictBody
from partway.container.routes import Handler, Routes
from partway.container.threads import ordinary
from partway.container.turns import Turns
from partway.container.websocket_stream import WebSocketStream
from partway.protocol.connection import HttpProtocol, watch_by_tcp
from partway.protocol.handshake import (
    AFTER_ANSWER,
    CLOSE_HEADER,
    UpgradeError,
    check_upgrade,
    is_upgrade,
    upgrade_headers,
)
from partway.protocol.limits import (
    LINGER_TIMEOUT,
    MAX_HEADER_LINE,
    MAX_HEADERS,
    REQUEST_HEAD_TIMEOUT,
)
from partway.protocol.unread_bodies import COLUMNS, REFUSED, instances_headers, unread_form

PING = "/ping"
INVOCATIONS = "/invocations"
EXECUTION_PARAMETERS = "/execution-parameters"

_log = logging.getLogger("partway.container.runtime")
_http_log = logging.getLogger("partway.container.http")


class Runtime:
    """Serves one model. ``http`` is the protocol factory for :meth:`loop.create_server`.

    Args:
        model: the model that answers.
        health: whether the model can serve.
        head_timeout: seconds for a whole request head, and for an idle connection.
        max_body: largest body of a request.
        body_timeout: seconds spent waiting for a body in all.
        answer_timeout: seconds from a request's arrival to the head of its answer.
        finish_timeout: seconds of silence that a stream's handler has whose input is over.
        max_running: how many streams and invocations may be under way at a time.

    Raises:
        TypeError: the model has handlers that cannot be called.
    """

    def __init__(
        self,
        model: Model,
        health: Health,
        *,
        head_timeout: float = REQUEST_HEAD_TIMEOUT,
        max_body: int = MAX_BODY_BYTES,
        body_timeout: float = BODY_TIMEOUT,
        answer_timeout: float = ANSWER_TIMEOUT,
        finish_timeout: float = FINISH_TIMEOUT,
        max_running: int = MAX_RUNNING,
    ) -> None:
        self._model = model
        self._health = health
        self._routes = Routes(model)
        _check_kinds(model)
        self._invokes = _takes_invocations(model)
        if not self._invokes and not self._routes:
            raise TypeError(f"{type(model).__name__} has neither stream() nor invoke()")
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._answer_timeout = answer_timeout
        self._finish_timeout = finish_timeout
        self._turns = Turns()
        #: The streams and invocations that are under way.
        self.activity = Activity(
            max_running, lambda: None if health.loaded else "the model is loading"
        )
        self.http = BoundedServer(
            self._handle,
            handler_cancellation=True,  # work of a client that has left is of use to nobody
            # aiohttp's only deadline: from a connection's start, and from its last response, to
            # the end of the next head. Bytes that dribble in do not move it.
            keepalive_timeout=head_timeout,
            max_line_size=MAX_HEADER_LINE,
            max_field_size=MAX_HEADER_LINE,
            max_headers=MAX_HEADERS,
            auto_decompress=False,  # a body is the model's, as it came
            # How long a refused body is read, so that TCP does not erase the refusal.
            lingering_time=LINGER_TIMEOUT,
            access_log=None,
            logger=_http_log,
        )

    async def abort(self, grace: float) -> None:
        """Cancel what runs, give it ``grace`` seconds to clean up, and drop every connection."""
        await self.activity.cancel(grace)
        self.http.pre_shutdown()  # idle connections need not wait for the next line
        await self.http.shutdown(grace)

    # --- Routes ----------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path == PING:
            response: web.StreamResponse = await self._ping(request)
        elif path in (INVOCATIONS, EXECUTION_PARAMETERS) and is_from_a_page(
            request.headers.items()
        ):
            response = unread(403, NO_PAGES)
        elif path == INVOCATIONS:
            response = await self._invocations(request)
        elif path == EXECUTION_PARAMETERS:
            response = self._execution_parameters(request)
        elif path.removeprefix("/") in self._routes or is_upgrade(request.headers):
            response = await self._stream(request, path.removeprefix("/"))
        else:
            response = refusal(404, f"nothing is served here: use {PING}, {INVOCATIONS}")
        if not response.prepared and (self.activity.draining or "Upgrade" in request.headers):
            # What follows a refused upgrade may be frames: nobody may read it as HTTP.
            response.force_close()
        return response

    async def _ping(self, request: web.BaseRequest) -> web.Response:
        """Answer ``/ping`` (clause 1.1-2); the text says GET in one place and POST in another."""
        if request.method not in ("GET", "POST"):
            return refusal(405, "the method of /ping must be GET or POST", Allow="GET, POST")
        trouble = STOPPING if self.activity.draining else await self._health.trouble()
        if trouble is not None:
            return refusal(503, trouble)
        return web.Response(status=200, headers={"Server": SERVER})

    def _execution_parameters(self, request: web.BaseRequest) -> web.Response:
        """Answer what a batch transform asks before it begins."""
        if request.method != "GET":
            return refusal(405, f"the method of {EXECUTION_PARAMETERS} must be GET", Allow="GET")
        parameters = {
            "MaxConcurrentTransforms": self._model.max_concurrent_transforms,
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": self._model.max_payload_mb,
        }
        return web.Response(
            text=json.dumps(parameters),
            content_type="application/json",
            headers={"Server": SERVER},
        )

    # --- Invocations -----------------------------------------------------------------------------

    async def _invocations(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            return refusal(405, "the method of /invocations must be POST", Allow="POST")
        if not self._invokes:
            return unread(501, "this model takes streams, not invocations")
        obstacle = self.activity.obstacle()
        if obstacle is not None:
            return unread(503, obstacle)
        length = request.content_length
        if length is None and not request.body_exists:
            length = 0
        if length is not None and length > self._max_body:
            return unread(413, f"the body is larger than {self._max_body} bytes")
        waits = request.headers.get("Expect", "").lower() == "100-continue"
        with self.activity.counted():
            if waits and request.version >= HttpVersion11:  # RFC 9110 §10.1.1
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return await self._answer(request, length)

    async def _answer(self, request: web.BaseRequest, length: int | None) -> web.StreamResponse:
        answering, predict_body = Answering(request), PredictBody()
        patience = asyncio.timeout(self._answer_timeout)
        form = unread_form(request.headers)

        def begins() -> Mapping[str, str]:
            patience.reschedule(None)
            if not predict_body.count or request.version < HttpVersion11:
                return {}
            return instances_headers(predict_body.count, keeps=request.keep_alive)

        try:
            async with (
                patience,
                aclosing(received(request, self._max_body, self._body_timeout)) as body,
            ):
                taken: AsyncIterable[bytes] = body
                if form is not None:  # a model hears of no body that nobody has read
                    await predict_body.instances(body, columns=form == COLUMNS)
                    taken, length = once(predict_body.text), len(predict_body.text)
                asked = Request(
                    request.headers,
                    request.headers.get("Content-Type", "application/octet-stream"),
                    *(length, taken, predict_body),
                )
                answer = self._model.invoke(asked)
                reply = Reply(answer) if isinstance(answer, AsyncIterable) else await answer
                return await answering.send(reply, begins)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise  # the client left, or we stop
            error: Exception = RuntimeError(
                "the model's code was cancelled, and not by the runtime"
            )
        except (Exception, SystemExit, KeyboardInterrupt) as raised:
            if isinstance(raised, ConnectionError) and _has_left(request):
                raise  # aiohttp lets go of the connection
            error = ordinary(raised)
        late = patience.expired()
        if form is not None and predict_body.refusal is not None and not late:
            headers = instances_headers(REFUSED, keeps=request.keep_alive)
            return refusal(400, predict_body.refusal, **headers)
        return self._give_up(request, answering, error, late=late)

    def _give_up(
        self, request: web.BaseRequest, answering: Answering, error: Exception, *, late: bool
    ) -> web.StreamResponse:
        """Say that an invocation failed; if its answer has begun, by cutting it off."""
        if late:
            error = TooSlow(f"the model has not answered within {self._answer_timeout:g} s")
        status, reason = _failure(error, _request_id(request))
        if answering.response is not None:
            raise answering.cut(reason) from error
        return unread(status, reason)

    # --- Streams ---------------------------------------------------------------------------------

    async def _stream(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        try:
            key = self._check_upgrade(request)
            handler = self._routes.handler(path, request.rel_url.query)
            opening = Opening(_request_id(request), path, request.rel_url.query, request.headers)
            with self.activity.counted():
                await self._admit(opening)
                return await self._run_stream(request, key, opening, handler)
        except UpgradeError as error:
            return refusal(error.status, error.reason, **error.headers)

    def _check_upgrade(self, request: web.BaseRequest) -> str:
        headers = _joined(request.headers)
        if not is_upgrade(headers):
            raise UpgradeError(
                426, "requests of this path must ask for a WebSocket", {"Upgrade": "websocket"}
            )
        if request.version != HttpVersion11:
            raise UpgradeError(400, "a WebSocket must be opened over HTTP/1.1 (RFC 6455 §4.2.1)")
        check_not_a_page(headers.items())
        if request.body_exists:
            # The parser would still be in the body when we take its bytes for frames.
            raise UpgradeError(400, "a request for an upgrade must not have a body")
        key = check_upgrade(request.method, headers)
        self.activity.check_stream()
        return key

    async def _admit(self, opening: Opening) -> None:
        """Let the model look at a stream that asks to be opened.

        Raises:
            UpgradeError: the model refuses the stream, or fails, or takes too long.
        """
        try:
            async with asyncio.timeout(ADMIT_TIMEOUT):
                await self._model.admit(opening)
        except (Exception, SystemExit, KeyboardInterrupt) as raised:
            error = cause_of(raised)
            log_failure(_log, "stream", error, request_id=opening.id)
            status = error.status if isinstance(error, ModelError) else 500
            raise UpgradeError(status, reason_of(error)) from error
        if self.activity.draining:  # since it was asked
            raise UpgradeError(503, STOPPING)

    async def _run_stream(
        self, request: web.BaseRequest, key: str, opening: Opening, handler: Handler
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=101,
            headers={**upgrade_headers(key), CLOSE_HEADER: AFTER_ANSWER, "Server": SERVER},
        )
        response.force_close()  # aiohttp expects no further request of this connection
        stream = WebSocketStream(opening, turns=self._turns, finish_timeout=self._finish_timeout)
        await response.prepare(request)
        http = cast("HttpProtocol", request.protocol)
        if http.transport is not None:
            # A platform's machine may vanish, and its pings with it.
            watch_by_tcp(http.transport, PLATFORM_SILENCE, PLATFORM_PROBES)
        try:
            with self.activity.open(stream):
                await stream.run(http, handler)
        finally:
            http.connection_lost(None)  # it has had no transport since the takeover
        return response


def _failure(error: BaseException, request_id: str) -> tuple[int, str]:
    """The status and reason of an invocation that failed; the log gets what is ours."""
    error = cause_of(error)
    if isinstance(error, BodyError):
        return error.status, error.reason
    log_failure(_log, "invocation", error, request_id=request_id)
    return (error.status if isinstance(error, ModelError) else 500), reason_of(error)


def _check_kinds(model: Model) -> None:
    """Check that methods are ``async def``, or not, as they are called.

    A coroutine that nobody awaits would be truthy, and raise nothing.

    Raises:
        TypeError: a method is async and should not be, or the other way round.
    """
    for name, is_async in (
        *(("load", False), ("unload", False), ("healthy", False)),
        ("admit", True),
    ):
        if inspect.iscoroutinefunction(getattr(type(model), name)) is not is_async:
            wanted = "async def" if is_async else "a plain def, which runs on a thread"
            raise TypeError(f"{type(model).__name__}.{name} must be {wanted}")


def _takes_invocations(model: Model) -> bool:
    """Whether the model has an ``invoke`` of its own.

    Raises:
        TypeError: the model's ``invoke`` is neither a coroutine function nor an async generator.
    """
    invoke = type(model).invoke
    if not (inspect.iscoroutinefunction(invoke) or inspect.isasyncgenfunction(invoke)):
        raise TypeError(f"{type(model).__name__}.invoke answers requests: it must be async def")
    return invoke is not Model.invoke


def _is_cancelled() -> bool:
    """Whether the current task has been cancelled."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _has_left(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()


def _joined(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Headers of one name in one line (RFC 9110 §5.3): what may come once is refused twice."""
    return CIMultiDict({name: ", ".join(headers.getall(name)) for name in headers})


def _request_id(request: web.BaseRequest) -> str:
    """The id that the gateway has given the request (clause 1.6-1), for the log."""
    return request.headers.get("X-Amzn-SageMaker-Request-Id", "-")[:64]


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether what aiohttp logs is our fault.

    A bad request is not, and its record would quote headers; a client that left is not either.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


_http_log.addFilter(_is_ours)
