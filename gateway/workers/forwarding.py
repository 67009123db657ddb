"""Requests that a worker hands to the parent, since they change or read what the parent has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.manifest import Manifest
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import Route
from partway.gateway.workers.limits import FORWARD_TIMEOUT, MAX_FORWARDED_BODY
from partway.gateway.workers.link import LinkBroken, WorkerLink
from partway.gateway.workers.messages import (
    TO_CLIENT,
    AnswerAtOnce,
    AnswerBegin,
    AnswerEnd,
    AnswerPart,
    ForwardedBody,
    ForwardedHead,
    ToClient,
    WantBody,
)
from partway.protocol.errors import InputValidationError, ServiceUnavailable

OPERATION: Final = "Forwarded"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_POST: Final = frozenset({"POST"})
_ROOT: Final = re.compile("/")


class ParentForwarding:
    """Hands requests to the parent, which authenticates their senders and answers.

    Args:
        path: of the parent's Unix socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def routes_of(self, manifest: Manifest) -> Iterator[Route]:
        """Yield the routes of an API that the parent serves."""
        for path in manifest.paths:
            yield self.route(path)
        for target in manifest.targets:
            yield Route(OPERATION, _POST, _ROOT, self, Access.ANYONE, target=f"{target}*")

    def route(self, path: re.Pattern[str], *, reserved: bool = False) -> Route:
        return Route(OPERATION, _METHODS, path, self, Access.ANYONE, reserved=reserved)

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Hand on one request; return when its answer is over.

        Raises:
            ServiceUnavailable: the parent does not answer.
        """
        try:
            async with asyncio.timeout(FORWARD_TIMEOUT):
                reader, writer = await asyncio.open_unix_connection(self._path)
        except OSError:  # a TimeoutError is one
            raise ServiceUnavailable(
                "the part of the gateway that answers this is starting; try again"
            ) from None
        link = WorkerLink(reader, writer, TO_CLIENT)
        try:
            link.send(_head(exchange))
            await self._answer(exchange, link)
        except (LinkBroken, ConnectionError):
            raise ServiceUnavailable(
                "the part of the gateway that answers this has ended; try again"
            ) from None
        finally:
            link.abort()

    async def _answer(self, exchange: Exchange, link: WorkerLink[ToClient]) -> None:
        feeding: asyncio.Task[None] | None = None
        try:
            async for message in link.messages():
                if isinstance(message, WantBody):
                    feeding = asyncio.create_task(_feed(exchange, link), name="forwarded body")
                elif await _passed_on(exchange, message):
                    return
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait((feeding,))
        if exchange.answered:
            exchange.abort()
        else:
            raise LinkBroken("the parent has ended the connection")


def _head(exchange: Exchange) -> ForwardedHead:
    return ForwardedHead(
        exchange.method,
        exchange.path,
        exchange.query,
        tuple(exchange.raw_headers),
        exchange.version,
        exchange.peer,
        exchange.encrypted,
        exchange.request_id,
    )


async def _passed_on(exchange: Exchange, message: ToClient) -> bool:
    """Pass a part of the answer on to the client; return whether it was the last."""
    match message:
        case AnswerAtOnce() | AnswerBegin() if message.is_recognised:
            exchange.recognised()
    match message:
        case AnswerAtOnce(status, headers, body):
            exchange.respond(status, body, headers)
            return True
        case AnswerBegin(status, headers, first):
            await exchange.begin(status, headers, first)
        case AnswerPart(data):
            await exchange.write(data)
        case AnswerEnd(last, otherwise):
            await exchange.end(last, otherwise)
            return True
    return False


async def _feed(exchange: Exchange, link: WorkerLink[ToClient]) -> None:
    """Pass the request's body on, as the parent takes it."""
    try:
        async for piece in exchange.chunks(MAX_FORWARDED_BODY):
            link.send(ForwardedBody(piece))
            await link.room()
    except InputValidationError as error:
        link.send(ForwardedBody(b"", error.message))
        return
    except ConnectionError:  # the client or the parent has left
        link.abort()
        return
    link.send(ForwardedBody(b""))
