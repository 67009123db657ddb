"""The container's HTTP and WebSocket interface of the contract, for one model.

The clauses are those of section 1.1; streams are 1.1-4.

Requests come from :mod:`partway.container.serving`, upgrades included. After an upgrade the
connection belongs to its :class:`~partway.container.websocket_stream.WebSocketStream`.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import time
from collections.abc import AsyncIterable, Callable, Mapping
from typing import TypeAlias, cast

from partway.container.activity import (
    NO_PAGES,
    STOPPING,
    Activity,
)
from partway.container.errors import (
    BodyError,
    ModelError,
    TooSlow,
    cause_of,
    log_failure,
    reason_of,
    shown_reason_of,
)
from partway.container.fair_scheduling import HandlerScheduler
from partway.container.figures import Ending, Figures, Refusal, ending_of
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
from partway.container.metrics_page import METRICS, MetricsPage
from partway.container.model import Model, Opening, Reply, Request
from partway.container.replies import send
from partway.container.routes import (
    Handler,
    RequestHandler,
    RequestRoutes,
    Routes,
    check_kinds,
    takes_invocations,
)
from partway.container.serving.body import DecodedBody, IncomingBody
from partway.container.serving.exchange import RuntimeExchange
from partway.container.serving.platform_requests import (
    PING,
    answer_ping,
    check_stream,
    request_id,
)
from partway.container.serving.request_head import RequestHead, head_of, query_of, uncoded
from partway.container.serving.server import ExchangeServer
from partway.container.threads import ordinary
from partway.container.websocket_stream import WebSocketStream
from partway.container.workers import JobFigures
from partway.log_lines import LogLine
from partway.protocol.connections.tcp import watch_by_tcp
from partway.protocol.http.content_codings import (
    KNOWN,
    UnknownCoding,
    check_known,
    is_coded,
)
from partway.protocol.limits import REQUEST_HEAD_TIMEOUT
from partway.protocol.openai.errors import error_body
from partway.protocol.websocket.handshake import (
    AFTER_ANSWER,
    CLOSE_HEADER,
    UpgradeError,
    is_upgrade,
    upgrade_headers,
)

INVOCATIONS = "/invocations"
EXECUTION_PARAMETERS = "/execution-parameters"
#: Begins the paths of OpenAI's API.
OPENAI = "/v1/"

_log = logging.getLogger("partway.container.runtime")

_Items: TypeAlias = AsyncIterable[bytes | str]


class Runtime:
    """Serves one model. ``http.protocol`` is the factory for :meth:`loop.create_server`.

    Args:
        head_timeout: seconds for a whole request head, and for an idle connection.
        max_body: largest body of a request.
        body_timeout: seconds spent waiting for a body in all.
        answer_timeout: seconds from a request's arrival to the head of its answer.
        finish_timeout: seconds of silence allowed to a stream's handler after its input has ended.
        max_running: most streams and invocations under way at a time.
        show_errors: whether clients are shown the model's exceptions; for development.
        jobs: returns the figures of the model's workers, for ``/metrics``.

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
        show_errors: bool = False,
        jobs: Callable[[], JobFigures | None] = lambda: None,
    ) -> None:
        self._model = model
        self._health = health
        self._streams = Figures()
        self._requests = Figures()
        figures = {"stream": self._streams, "request": self._requests}
        self._metrics = MetricsPage(model, figures, jobs)
        self._routes = Routes(model)
        check_kinds(model)
        self._request_routes = RequestRoutes(model)
        self._invokes = takes_invocations(model)
        if not (self._invokes or self._routes or self._request_routes):
            raise TypeError(f"{type(model).__name__} has neither stream() nor invoke()")
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._answer_timeout = answer_timeout
        self._finish_timeout = finish_timeout
        self._reason_of = shown_reason_of if show_errors else reason_of
        self._scheduler = HandlerScheduler()
        #: The streams and invocations that are under way.
        self.activity = Activity(
            max_running, lambda: None if health.loaded else "the model is loading"
        )
        self.http = ExchangeServer(self._handle, head_timeout=head_timeout)

    async def abort(self, grace: float) -> None:
        """Cancel everything under way, wait ``grace`` seconds for it, and drop all connections."""
        await self.activity.cancel(grace)
        if left := await self.http.shutdown(grace):
            _log.error(
                LogLine("requests ignored their cancellation, and are left running", requests=left)
            )

    # --- Routes ----------------------------------------------------------------------------------

    async def _handle(self, exchange: RuntimeExchange) -> None:
        path = exchange.path
        said = head_of(exchange.headers)
        if self.activity.draining or said.upgrade:
            # The bytes after a refused upgrade may be frames; they must not be parsed as HTTP.
            exchange.closes = True
        if path == PING:
            await answer_ping(exchange, self.activity, self._health)
        elif (handlers := self._requests_at(exchange)) is not None:
            await self._request(exchange, said, handlers)
        elif path in (INVOCATIONS, EXECUTION_PARAMETERS) and said.by_page:
            self._refuse_unread(exchange, 403, NO_PAGES)
        elif path == INVOCATIONS:
            await self._invocations(exchange, said)
        elif path == EXECUTION_PARAMETERS:
            self._execution_parameters(exchange)
        elif path.removeprefix("/") in self._routes or is_upgrade(exchange.headers):
            await self._stream(exchange, path.removeprefix("/"))
        elif path == METRICS:
            await self._metrics.answer(exchange, by_page=said.by_page)
        else:
            self._unknown_path(exchange)

    def _refuse_unread(self, exchange: RuntimeExchange, status: int, reason: str) -> None:
        """Refuse a request before it begins, and leave its body unread."""
        self._requests.refuse(self._refusal(status))
        exchange.refuse_unread(status, reason)

    def _refusal(self, status: int) -> Refusal:
        """Return why something is refused with a status before it begins."""
        if status == 403:
            return "web_page"
        if status != 503:
            return "invalid"
        if self.activity.draining:
            return "stopping"
        return "full" if self._health.loaded else "loading"

    def _unknown_path(self, exchange: RuntimeExchange) -> None:
        """Answer 404, below ``/v1`` in the form that OpenAI's clients read."""
        requests = (f"/{path}" for path in self._request_routes.paths)
        why = f"nothing is served here: use {', '.join((PING, INVOCATIONS, *requests))}"
        self._requests.refuse("invalid")
        if exchange.path.startswith(OPENAI) and self._request_routes:
            headers = {"Content-Type": "application/json"}
            exchange.respond(404, error_body(why, 404), headers)
        else:
            exchange.refuse(404, why)

    def _execution_parameters(self, exchange: RuntimeExchange) -> None:
        """Answer a batch transform's request for its parameters."""
        if exchange.method != "GET":
            self._requests.refuse("invalid")
            exchange.refuse(
                405, f"the method of {EXECUTION_PARAMETERS} must be GET", {"Allow": "GET"}
            )
            return
        parameters = {
            "MaxConcurrentTransforms": self._model.max_concurrent_transforms,
            "BatchStrategy": "MULTI_RECORD",
            "MaxPayloadInMB": self._model.max_payload_mb,
        }
        headers = {"Content-Type": "application/json; charset=utf-8"}
        exchange.respond(200, json.dumps(parameters).encode(), headers)

    # --- Invocations -----------------------------------------------------------------------------

    async def _invocations(self, exchange: RuntimeExchange, said: RequestHead) -> None:
        if exchange.method != "POST":
            self._requests.refuse("invalid")
            exchange.refuse(405, "the method of /invocations must be POST", {"Allow": "POST"})
            return
        if not self._invokes:
            self._refuse_unread(exchange, 501, "this model takes streams, not invocations")
            return
        await self._admitted(exchange, said, self._model.invoke)

    def _requests_at(self, exchange: RuntimeExchange) -> Mapping[str, RequestHandler] | None:
        """Return the handlers of a path; None if it has none, or a stream is asked for."""
        if is_upgrade(exchange.headers):
            return None
        return self._request_routes.handlers(exchange.path.removeprefix("/"))

    async def _request(
        self, exchange: RuntimeExchange, said: RequestHead, handlers: Mapping[str, RequestHandler]
    ) -> None:
        handler = handlers.get(exchange.method)
        if said.by_page:
            self._refuse_unread(exchange, 403, NO_PAGES)
        elif handler is None:
            self._requests.refuse("invalid")
            methods = ", ".join(sorted(handlers))
            exchange.closes = True  # the body is left unread
            exchange.refuse(405, f"the method must be one of {methods}", {"Allow": methods})
        else:
            await self._admitted(exchange, said, handler)

    async def _admitted(
        self, exchange: RuntimeExchange, said: RequestHead, handler: RequestHandler
    ) -> None:
        """Answer a request, unless it is known beforehand that it cannot be taken."""
        obstacle = self.activity.obstacle()
        if obstacle is not None:
            self._refuse_unread(exchange, 503, obstacle)
            return
        length = exchange.length
        if length is not None and length > self._max_body:
            self._refuse_unread(exchange, 413, f"the body is larger than {self._max_body} bytes")
            return
        try:
            check_known(said.coding)  # before the body is asked for
        except UnknownCoding as fault:
            self._requests.refuse("invalid")
            exchange.closes = True  # the body is left unread
            exchange.refuse(415, f"the body: {fault}", {"Accept-Encoding": ", ".join(KNOWN)})
            return
        with self.activity.counted():
            began = time.monotonic()
            self._requests.begin()
            ending: Ending | None = None
            try:
                exchange.ask_for_body()
                ending = await self._answer(exchange, said, handler)
            finally:
                if ending is None:  # the handler was cancelled
                    ending = "client_left" if exchange.left else "stopped"
                self._requests.end(ending, time.monotonic() - began)

    async def _answer(
        self, exchange: RuntimeExchange, said: RequestHead, handler: RequestHandler
    ) -> Ending:
        """Answer a request; return how it ended, unless its client has left."""
        body = IncomingBody(exchange, self._max_body, self._body_timeout)
        patience = asyncio.timeout(self._answer_timeout)
        try:
            async with patience:
                taken: AsyncIterable[bytes] = body
                headers, length = exchange.headers, exchange.length
                if is_coded(said.coding):
                    taken = DecodedBody(body, said.coding, self._max_body)
                    headers, length = uncoded(headers), None
                asked = Request(headers, said.content_type, length, taken, query_of(exchange))
                answer = handler(asked)
                # An async generator is sent item by item, whatever its annotation says.
                yields = inspect.isasyncgen(answer)
                reply = Reply(cast("_Items", answer)) if yields else await answer
                await send(exchange, reply, lambda: patience.reschedule(None))
                return ending_of(reply.status if isinstance(reply, Reply) else 200)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise  # the client has left, or we are stopping
            error: Exception = RuntimeError(
                "the model's code raised CancelledError, but the runtime had not cancelled it"
            )
        except (Exception, SystemExit, KeyboardInterrupt) as raised:
            if isinstance(raised, ConnectionError) and exchange.left:
                raise  # no client is left to be told
            error = ordinary(raised)
        finally:
            body.close()
        return self._give_up(exchange, error, late=patience.expired())

    def _give_up(self, exchange: RuntimeExchange, error: Exception, *, late: bool) -> Ending:
        """Report that an invocation failed; if its answer has begun, cut the connection."""
        if late:
            error = TooSlow(f"the model has not answered within {self._answer_timeout:g} s")
        status, reason = self._failure(error, request_id(exchange.headers))
        if exchange.begun:
            exchange.cut()
            return "failed"
        exchange.refuse_unread(status, reason)
        return ending_of(status)

    def _failure(self, error: BaseException, request_id: str) -> tuple[int, str]:
        """Return the status and reason of a failed invocation; internal details go to the log."""
        error = cause_of(error)
        if isinstance(error, BodyError):
            return error.status, error.reason
        log_failure(_log, "invocation", error, request_id=request_id)
        return (error.status if isinstance(error, ModelError) else 500), self._reason_of(error)

    # --- Streams ---------------------------------------------------------------------------------

    async def _stream(self, exchange: RuntimeExchange, path: str) -> None:
        try:
            key = check_stream(exchange, self.activity)
            query = query_of(exchange)
            handler = self._routes.handler(path, query)
            opening = Opening(request_id(exchange.headers), path, query, exchange.headers)
            with self.activity.counted():
                await self._admit(opening)
                await self._run_stream(exchange, key, opening, handler)
        except UpgradeError as error:
            by_model = isinstance(error, _RefusedByModel)
            self._streams.refuse("model" if by_model else self._refusal(error.status))
            exchange.refuse(error.status, error.reason, error.headers)

    async def _admit(self, opening: Opening) -> None:
        """Let the model check a stream before it is opened.

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
            raise _RefusedByModel(status, self._reason_of(error)) from error
        if self.activity.draining:  # the shutdown may have begun meanwhile
            raise UpgradeError(503, STOPPING)

    async def _run_stream(
        self, exchange: RuntimeExchange, key: str, opening: Opening, handler: Handler
    ) -> None:
        stream = WebSocketStream(
            opening,
            scheduler=self._scheduler,
            finish_timeout=self._finish_timeout,
            reason_of=self._reason_of,
        )
        exchange.switch({**upgrade_headers(key), CLOSE_HEADER: AFTER_ANSWER})
        connection = exchange.connection
        if connection.transport is not None:
            # A platform's machine may vanish, and then its pings stop too.
            watch_by_tcp(connection.transport, PLATFORM_SILENCE, PLATFORM_PROBES)
        began = time.monotonic()
        self._streams.begin()
        try:
            with self.activity.open(stream):
                await stream.run(connection, handler)
        finally:
            self._streams.end(stream.ending, time.monotonic() - began)
            connection.release()


class _RefusedByModel(UpgradeError):
    """The model has refused a stream, or failed to check it."""


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
