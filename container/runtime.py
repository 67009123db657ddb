"""The HTTP and WebSocket surface of the contract (section 1.1), before one model.

aiohttp parses every request, upgrades included. An upgrade's connection then belongs to its
:class:`~container.stream.WebSocketStream`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import cast

from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError

from container.limits import BODY_TIMEOUT, MAX_BODY_BYTES
from container.model import Invocation, Model, Reply
from container.stream import WebSocketStream
from protocol.connection import HttpProtocol
from protocol.handshake import UpgradeError, check_upgrade, is_upgrade, upgrade_headers
from protocol.limits import (
    FRAMES_PER_TURN,
    LINGER_TIMEOUT,
    MAX_HEADER_LINE,
    MAX_HEADERS,
    REQUEST_HEAD_TIMEOUT,
    STALL_TIMEOUT,
)

PING = "/ping"
INVOCATIONS = "/invocations"
STREAM = "/invocations-bidirectional-stream"

_log = logging.getLogger("partway.container.runtime")
_http_log = logging.getLogger("partway.container.http")


class BodyError(Exception):
    """A request's body is the client's fault.

    Attributes:
        status: the HTTP status to answer.
        reason: what was wrong.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Runtime:
    """Serves one model. ``http`` is the protocol factory for :meth:`loop.create_server`.

    Args:
        model: what answers.
        on_idle: called whenever the last stream and invocation has ended.
        head_timeout: seconds for a whole request head, and for an idle connection.
        max_body: largest body of a request.
        body_timeout: seconds spent waiting for a body in all.
    """

    def __init__(
        self,
        model: Model,
        *,
        on_idle: Callable[[], None] = lambda: None,
        head_timeout: float = REQUEST_HEAD_TIMEOUT,
        max_body: int = MAX_BODY_BYTES,
        body_timeout: float = BODY_TIMEOUT,
    ) -> None:
        self._model = model
        self._on_idle = on_idle
        self._max_body = max_body
        self._body_timeout = body_timeout
        self._running: set[asyncio.Task[object]] = set()
        #: While set /ping answers 503 and nothing new begins.
        self.draining = False
        #: The streams that are open.
        self.streams: set[WebSocketStream] = set()
        self.http = web.Server(
            self._handle,
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

    @property
    def idle(self) -> bool:
        """Whether no stream and no invocation is running."""
        return not self._running

    async def abort(self, grace: float) -> None:
        """Cancel what runs, give it ``grace`` seconds to clean up, and drop every connection."""
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=grace)
        self.http.pre_shutdown()  # idle connections need not wait for the next line
        await self.http.shutdown(grace)

    # --- Routes ----------------------------------------------------------------------------------

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path == PING:
            response: web.StreamResponse = self._ping(request)
        elif path == INVOCATIONS:
            response = await self._invocations(request)
        elif path == STREAM:
            response = await self._stream(request)
        else:
            response = _refusal(404, f"nothing is served here: use {PING}, {INVOCATIONS}, {STREAM}")
        if not response.prepared and (self.draining or "Upgrade" in request.headers):
            # What follows a refused upgrade may be frames: nobody may read it as HTTP.
            response.force_close()
        return response

    def _ping(self, request: web.BaseRequest) -> web.Response:
        """Health (clause 1.1-2); the text says GET in one place and POST in another."""
        if request.method not in ("GET", "POST"):
            return _refusal(405, "/ping takes GET and POST", Allow="GET, POST")
        return web.Response(status=503 if self.draining else 200)

    async def _invocations(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "POST":
            return _refusal(405, "/invocations takes POST", Allow="POST")
        if self.draining:
            return _refusal(503, "the container is stopping")
        length = request.content_length
        if length is None and not request.body_exists:
            length = 0
        if length is not None and length > self._max_body:
            return _unread(413, f"the body is larger than {self._max_body} bytes")
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # so that a failure can still be answered

        response: web.StreamResponse | None = None
        content_type = request.headers.get("Content-Type", "application/octet-stream")
        with self._running_request():
            try:
                async with aclosing(self._body(request)) as body:
                    reply = await self._model.invoke(Invocation(content_type, length, body))
                    response = web.StreamResponse(headers={"Content-Type": reply.content_type})
                    await _send(request, response, reply)
            except ConnectionError:
                raise  # the client left; aiohttp lets go of the connection
            except BodyError as error:
                if response is not None and response.prepared:
                    raise _cut(request, error.reason) from error
                return _unread(error.status, error.reason)
            except Exception as error:
                _log.exception("the model failed to answer %s", INVOCATIONS)
                if response is not None and response.prepared:
                    raise _cut(request, "the model failed") from error
                # The type, not the message: that one may quote a payload.
                return _unread(500, f"the model failed: {type(error).__name__}")
        return response

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            key = self._check_upgrade(request)
        except UpgradeError as error:
            return _refusal(error.status, error.reason, **error.headers)
        response = web.StreamResponse(status=101, headers=upgrade_headers(key))
        response.force_close()  # aiohttp expects no further request of this connection
        # The gateway's request id (clause 1.6-1), for the log.
        stream = WebSocketStream(request.headers.get("X-Amzn-SageMaker-Request-Id", "-")[:64])
        with self._running_request():
            await response.prepare(request)
            self.streams.add(stream)
            try:
                await stream.run(cast("HttpProtocol", request.protocol), self._model.stream)
            finally:
                self.streams.discard(stream)
        return response

    def _check_upgrade(self, request: web.BaseRequest) -> str:
        if not is_upgrade(request.headers):
            raise UpgradeError(426, "this path speaks WebSocket", {"Upgrade": "websocket"})
        if request.version != HttpVersion11:
            raise UpgradeError(400, "a WebSocket opens over HTTP/1.1 (RFC 6455 §4.2.1)")
        if "Origin" in request.headers:
            # The platform sends none. A browser does, and no page has business with a container
            # that happens to listen where it can reach it.
            raise UpgradeError(403, "a container takes streams from its platform, not from pages")
        if request.body_exists:
            # The parser would still be in the body when we take its bytes for frames.
            raise UpgradeError(400, "an upgrade has no body")
        key = check_upgrade(request.method, request.headers)
        if self.draining:
            raise UpgradeError(503, "the container is stopping")
        return key

    # --- Bodies ----------------------------------------------------------------------------------

    async def _body(self, request: web.BaseRequest) -> AsyncGenerator[bytes, None]:
        """A request's body as it arrives; no item spans two chunks.

        Raises:
            BodyError: too large (413), too slow (408), or not what its head announced (400).
        """
        clock = asyncio.get_running_loop().time
        content = request.content
        received = chunks = 0
        patience = self._body_timeout
        while not content.at_eof():
            asked = clock()
            try:
                async with asyncio.timeout(patience):
                    data, _ = await content.readchunk()
            except TimeoutError:
                raise BodyError(408, f"no body within {self._body_timeout:g} s") from None
            except web.RequestPayloadError as error:
                raise BodyError(400, "the body is broken") from error
            # Time spent on the model, or on a client that is slow to read, is not the body's.
            patience -= clock() - asked
            received += len(data)
            if received > self._max_body:
                raise BodyError(413, f"the body is larger than {self._max_body} bytes")
            chunks += 1
            if not chunks % FRAMES_PER_TURN:
                await asyncio.sleep(0)  # one read may hold thousands, and others want their turn
            if data:
                yield data

    @contextmanager
    def _running_request(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None, "a request is handled in a task"
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._on_idle()


async def _send(request: web.BaseRequest, response: web.StreamResponse, reply: Reply) -> None:
    """Send a reply, chunk by chunk where it has no length (clause 1.1-5).

    Raises:
        ConnectionError: the client left, or took nothing for the stall timeout.
        ValueError: the body is not as long as the reply says.
    """
    if reply.length is not None:
        response.content_length = reply.length
    await response.prepare(request)
    sent = 0
    try:
        async for data in reply.body:
            sent += len(data)
            if reply.length is not None and sent > reply.length:
                break
            async with asyncio.timeout(STALL_TIMEOUT):
                await response.write(data)
        if reply.length is not None and sent != reply.length:
            # The next response would be taken for the rest of this one.
            raise ValueError(f"the reply's body is not the {reply.length} bytes it announced")
        async with asyncio.timeout(STALL_TIMEOUT):
            await response.write_eof()
    except TimeoutError as error:
        raise _cut(request, "the client takes nothing") from error


def _cut(request: web.BaseRequest, why: str) -> ConnectionError:
    """Abort the connection under a response that cannot be finished: a clean end would lie."""
    if request.transport is not None:
        request.transport.abort()
    return ConnectionResetError(why)


def _refusal(status: int, reason: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=f"{reason}\n", headers=headers)


def _unread(status: int, reason: str) -> web.Response:
    """A refusal that leaves a body unread: the connection can carry nothing more."""
    response = _refusal(status, reason)
    response.force_close()
    return response


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether what aiohttp logs is our fault.

    A bad request is not, and would quote its headers; a client that left is not either.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError | ConnectionError)


_http_log.addFilter(_is_ours)
