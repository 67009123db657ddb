"""A gRPC call as an exchange: message, deadline, answer and trailing status."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple, TypeVar

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.prediction.errors import grpc_status
from partway.gateway.apis.prediction.workers import PredictionWorkers
from partway.gateway.http.content_codings import decoded_body
from partway.gateway.http.exchange import NO_HEADERS, Exchange, TrailingExchange
from partway.gateway.http.request_payloads import GatheredPayload
from partway.gateway.http.routes import Leave, Operation, Route
from partway.protocol.errors import (
    DeadlineExceeded,
    InputValidationError,
    NotFound,
    UnsupportedHttpVersion,
    UnsupportedMediaType,
    quoted,
)
from partway.protocol.grpc.messages import PREFIX_BYTES, check_encoding, framed, only_message
from partway.protocol.grpc.metadata import HEAD, Code, is_grpc, status, timeout_of
from partway.protocol.prediction.work_cost import bytes_cost

_POST: Final = frozenset({"POST"})
_ANY_CALL: Final = re.compile(r"/[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+/[A-Za-z_]\w*", re.ASCII)

_T = TypeVar("_T")


class CallAnswer(NamedTuple):
    """The answer to a call.

    Attributes:
        metadata: further headers.
    """

    message: bytes
    metadata: Mapping[str, str] = NO_HEADERS


#: Answers a call, given the caller and the bytes of its message.
Unary = Callable[[TrailingExchange, Identity, bytes], Awaitable[CallAnswer]]

#: Answers a call with a response in pieces, and ends the response.
Streaming = Callable[[TrailingExchange, Identity, bytes], Awaitable[None]]


def unary(
    service: str,
    method: str,
    answer: Unary,
    most_bytes: int,
    *,
    access: Access = Access.SIGNED_OR_BEARER,
    granted_with: str = "",
    reserved: bool = False,
    workers: PredictionWorkers | None = None,
) -> Route:
    """Return the route of a method that answers one message with one message.

    ``most_bytes`` limits the call's message. ``granted_with`` is the operation that the caller
    needs permission for. With ``reserved``, calls are answered in the reserve too, when all else is
    in use. ``workers`` unpack messages; None if messages are short.
    """

    async def called(exchange: Exchange, identity: Identity, _named: Mapping[str, str]) -> None:
        call = _call(exchange)
        async with _within_deadline(call):
            found = await answer(
                call, identity, await _message(call, identity, most_bytes, workers)
            )
        head = {**HEAD, **found.metadata}
        call.respond_with_trailers(framed(found.message), head, status(Code.OK))

    return _route(service, method, called, most_bytes, access, granted_with, reserved=reserved)


def streaming(
    service: str,
    method: str,
    answer: Streaming,
    most_bytes: int,
    *,
    granted_with: str,
    workers: PredictionWorkers,
) -> Route:
    """Return the route of a method that answers one message with many; see :func:`unary`."""

    async def called(exchange: Exchange, identity: Identity, _named: Mapping[str, str]) -> None:
        call = _call(exchange)
        try:
            async with _within_deadline(call):
                await answer(call, identity, await _message(call, identity, most_bytes, workers))
        except DeadlineExceeded as late:
            if not call.answered:
                raise
            await call.end_with_trailers(status(Code.DEADLINE_EXCEEDED, late.message))

    access = Access.SIGNED_OR_BEARER
    return _route(service, method, called, most_bytes, access, granted_with)


def every_other_call() -> Route:
    async def called(exchange: Exchange, *_: object) -> None:
        raise NotFound(f"no operation answers {exchange.path[1:]}")

    return Route(
        *("UnknownCall", _POST, _ANY_CALL, called, Access.ANYONE),
        errors=grpc_status,
        requires=_check_call,
    )


class LoadedLater:
    """A module that is imported at the first call that needs it: protobuf and numpy take time."""

    def __init__(self, load: Callable[[], ModuleType]) -> None:
        self._load = load
        self._found: Any = None

    async def get(self) -> Any:
        if self._found is None:
            self._found = await asyncio.to_thread(self._load)
        return self._found


def parsed(message: bytes, kind: Callable[[], Any], read: Callable[[Any], _T]) -> _T:
    """Parse a message.

    ``kind`` is the message's class; ``read`` converts the parsed message to the result.

    Raises:
        InputValidationError: the bytes are no such message.
    """
    from google.protobuf.message import DecodeError  # the module is imported by now

    found = kind()
    try:
        found.ParseFromString(message)
    except DecodeError:
        name = found.DESCRIPTOR.full_name
        raise InputValidationError(
            f"the message cannot be read; it must be a protobuf {name}", "MalformedMessage"
        ) from None
    return read(found)


def _route(
    service: str,
    method: str,
    operation: Operation,
    most_bytes: int,
    access: Access,
    granted_with: str,
    *,
    reserved: bool = False,
) -> Route:
    return Route(
        method,
        _POST,
        re.compile(re.escape(f"/{service}/{method}")),
        operation,
        access,
        GatheredPayload(most_bytes + PREFIX_BYTES),
        errors=grpc_status,
        reserved=reserved,
        leave=Leave.OF_OPERATION,
        granted_with=granted_with,
        requires=_check_call,
    )


def _check_call(exchange: Exchange) -> None:
    """Refuse requests that are no gRPC calls; their clients get HTTP's own errors.

    Raises:
        UnsupportedMediaType: the content type is not gRPC's.
        UnsupportedHttpVersion: the request did not come over HTTP/2.
    """
    media = exchange.headers.get("content-type", "")
    if not is_grpc(media):
        given = quoted(media) if media else "nothing"
        raise UnsupportedMediaType(
            f"content-type: {given} was given; gRPC calls must have application/grpc"
        )
    if not isinstance(exchange, TrailingExchange):
        raise UnsupportedHttpVersion(
            "the request came over HTTP/1.1; gRPC must come over HTTP/2: with TLS, negotiate h2 "
            "by ALPN; without TLS, use prior knowledge"
        )


def _call(exchange: Exchange) -> TrailingExchange:
    assert isinstance(exchange, TrailingExchange), "its route has checked that"
    return exchange


async def _message(
    call: TrailingExchange,
    identity: Identity,
    most_bytes: int,
    workers: PredictionWorkers | None,
) -> bytes:
    encoding = call.headers.get("grpc-encoding", "")
    check_encoding(encoding)
    limit = most_bytes + PREFIX_BYTES
    if workers is None:
        return only_message(await decoded_body(call, limit), encoding, most_bytes)
    share = workers.share_of(call, identity)
    body = await share.decoded_body(limit)
    if encoding in ("", "identity"):
        return only_message(body, encoding, most_bytes)
    return await share.run(bytes_cost(most_bytes), only_message, body, encoding, most_bytes)


@asynccontextmanager
async def _within_deadline(call: TrailingExchange) -> AsyncIterator[None]:
    text = call.headers.get("grpc-timeout", "")
    try:
        async with asyncio.timeout(timeout_of(text)) as longest:
            yield
    except TimeoutError:
        if not longest.expired():
            raise
        raise DeadlineExceeded(
            f"the call was not over by its deadline (grpc-timeout: {text})"
        ) from None
