"""Requests that a worker hands to the parent, since they change or read what the parent has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Final

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.apis.manifest import Manifest
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.http.routes import Route
from partway.gateway.limits import MAX_FORWARDED, SHARE_OF_ONE
from partway.gateway.quota import NOBODY, NamedCounts, Quota, QuotaFull, QuotaLimits
from partway.gateway.workers.limits import (
    DIAL_TIMEOUT,
    FORWARDED_RESERVE,
    HANDOVER_TIMEOUT,
    MAX_FORWARDED_BODY,
)
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
    as_bytes,
    as_text,
)
from partway.gateway.workers.parent_link import ParentUnavailable
from partway.protocol.errors import ApiError, ClientLeft, ServiceUnavailable

OPERATION: Final = "Forwarded"

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_POST: Final = frozenset({"POST"})
_ROOT: Final = re.compile("/")


class ParentForwarding:
    """Hands requests to the parent, which authenticates their senders and answers.

    Args:
        path: of the parent's Unix socket.
        check_up: raises ParentUnavailable while there is no parent.
        counts: shared with the other workers, whose forwarded requests count too.
        proxies: addresses of proxies, which carry many clients and so have no share.
    """

    def __init__(
        self,
        path: str,
        check_up: Callable[[], None],
        counts: NamedCounts,
        proxies: Container[str],
    ) -> None:
        self._path = path
        self._check_up = check_up
        self._proxies = proxies
        #: The reserve is for metrics, which are answered when all other places are taken.
        self._places = _places(MAX_FORWARDED, counts, "forwarded requests")
        self._reserve = _places(FORWARDED_RESERVE, counts, "forwarded in the reserve")

    def routes_of(self, manifest: Manifest) -> Iterator[Route]:
        """Yield the routes of an API that the parent serves."""
        for path in manifest.paths:
            yield self.route(path)
        for target in manifest.targets:
            yield Route(OPERATION, _POST, _ROOT, self, Access.ANYONE, target=f"{target}*")

    def route(self, path: re.Pattern[str]) -> Route:
        return Route(OPERATION, _METHODS, path, self, Access.ANYONE)

    def reserved_route(self, path: re.Pattern[str]) -> Route:
        return Route(OPERATION, _METHODS, path, self._in_reserve, Access.ANYONE, reserved=True)

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        """Hand on one request; return when its answer is over.

        Raises:
            ServiceUnavailable: all places are taken, or the parent does not answer.
            ClientLeft: the client has left.
        """
        await self._in_place(exchange, self._places)

    async def _in_reserve(self, exchange: Exchange, *_: object) -> None:
        await self._in_place(exchange, self._reserve)

    async def _in_place(self, exchange: Exchange, places: Quota) -> None:
        self._check_up()
        owner = NOBODY if exchange.peer in self._proxies else peer_of(exchange.peer)
        try:
            places.take(1, owner)
        except QuotaFull as full:
            whose = "one address" if full.owner else "all clients"
            raise ServiceUnavailable(
                f"{full.most} requests of {whose} are under way that the gateway process "
                "answers, which is the most; try again when one has ended"
            ) from None
        try:
            await self._forward(exchange)
        finally:
            places.give_back(1, owner)

    async def _forward(self, exchange: Exchange) -> None:
        takes_none = ParentUnavailable(
            "the part of the gateway that answers this takes no request now; try again"
        )
        try:
            async with asyncio.timeout(DIAL_TIMEOUT):
                reader, writer = await asyncio.open_unix_connection(self._path)
        except OSError:  # a TimeoutError is one
            raise takes_none from None
        link = WorkerLink(reader, writer, TO_CLIENT)
        try:
            request = _ForwardedRequest(exchange, link)
            async with asyncio.timeout(HANDOVER_TIMEOUT):
                await request.begin()
            await request.run()
        except ClientLeft:  # an OSError too
            raise
        except TimeoutError:
            raise takes_none from None
        except (LinkBroken, OSError):
            raise ParentUnavailable(
                "the part of the gateway that answers this has ended; try again"
            ) from None
        finally:
            link.abort()


def _places(number: int, counts: NamedCounts, name: str) -> Quota:
    return Quota(QuotaLimits(number, number // SHARE_OF_ONE), counts, name)


class _ForwardedRequest:
    """A request on its way to the parent, and its answer on the way back."""

    def __init__(self, exchange: Exchange, link: WorkerLink[ToClient]) -> None:
        self._exchange = exchange
        self._link = link
        self._wanted = asyncio.Event()
        self._client_left = False

    async def begin(self) -> None:
        """Return when the parent has taken the request; it waits in a queue before.

        Raises:
            LinkBroken: the parent has ended.
        """
        self._link.send(_head(self._exchange))
        if await anext(self._link.messages(), None) is None:
            raise LinkBroken("the parent has ended the connection")

    async def run(self) -> None:
        """Return when the answer is over.

        Raises:
            ClientLeft: the client has left.
            LinkBroken: the parent has ended before it has answered.
            OSError: as LinkBroken.
        """
        feeding: asyncio.Task[None] | None = None
        try:
            async for message in self._link.messages():
                if isinstance(message, WantBody):
                    self._wanted.set()
                    if feeding is None:
                        feeding = asyncio.create_task(self._feed(), name="forwarded body")
                elif await self._passed_on(message):
                    return
        finally:
            if feeding is not None:
                feeding.cancel()
                await asyncio.wait((feeding,))
        if self._client_left:
            raise ClientLeft
        if not self._exchange.answered:
            raise LinkBroken("the parent has ended the connection")
        self._exchange.abort()

    async def _passed_on(self, message: ToClient) -> bool:
        """Pass a part of the answer on to the client; return whether it was the last."""
        exchange = self._exchange
        match message:
            case AnswerAtOnce(status, headers, body):
                if message.is_recognised:
                    exchange.recognised()
                else:
                    exchange.visitor.account.draw(message.cost)
                exchange.respond(status, body, _as_texts(headers))
                return True
            case AnswerBegin(status, headers, first):
                if message.is_recognised:
                    exchange.recognised()
                await exchange.begin(status, _as_texts(headers), first)
            case AnswerPart(data):
                await exchange.write(data)
            case AnswerEnd(last, otherwise):
                await exchange.end(last, otherwise)
                return True
        return False

    async def _feed(self) -> None:
        """Pass the request's body on, a piece each time that the parent wants one."""
        link = self._link
        try:
            async for piece in self._exchange.chunks(MAX_FORWARDED_BODY):
                self._wanted.clear()
                link.send(ForwardedBody(piece))
                await self._wanted.wait()
            link.send(ForwardedBody(b""))
        except ApiError as error:
            link.send(ForwardedBody(b"", error.name, error.message))
        except ClientLeft:
            self._client_left = True
            link.abort()
        except LinkBroken:
            link.abort()


def _head(exchange: Exchange) -> ForwardedHead:
    return ForwardedHead(
        exchange.method,
        as_bytes(exchange.path),
        as_bytes(exchange.query),
        tuple((as_bytes(name), as_bytes(value)) for name, value in exchange.raw_headers),
        exchange.version,
        exchange.peer,
        exchange.encrypted,
        exchange.request_id,
    )


def _as_texts(headers: Mapping[str, bytes]) -> dict[str, str]:
    return {name: as_text(value) for name, value in headers.items()}
