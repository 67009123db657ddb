"""The way from an exchange to its operation, and from errors to responses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping
from contextlib import nullcontext
from functools import lru_cache
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from multidict import istr

from partway.gateway.access.authentication import (
    ANYBODY,
    AskedRequest,
    Authenticator,
    Deed,
    Identity,
)
from partway.gateway.access.loopback_requests import check_nearness
from partway.gateway.access.origins import check_origin
from partway.gateway.arns import Arns
from partway.gateway.http.audit import audited
from partway.gateway.http.body_quota import HeldBytes
from partway.gateway.http.error_dialects import ErrorDialect, ErrorResponse, aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.http.request_payloads import PayloadRule
from partway.gateway.http.routes import Access, Leave, Route, find
from partway.gateway.plain_text import cut
from partway.gateway.quota import Quota
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, ContainerError, InternalServerError
from partway.protocol.http.head_limits import check_head
from partway.protocol.limits import LOGGED_CHARACTERS, MAX_ENDPOINT_NAME
from partway.protocol.signatures.signed_request import SignableRequest

log = logging.getLogger("partway.gateway")

#: Requests, by method, and a path and an X-Amz-Target of so many characters, whose routes are
#: remembered; and addresses, whose owners are.
_REMEMBERED_ROUTES: Final = 1024
_LONGEST_REMEMBERED: Final = 256
_REMEMBERED_OWNERS: Final = 1024

#: A request's route, what its path says, and what it asks leave for.
_Found: TypeAlias = tuple[Route, Mapping[str, str], Deed]

_TARGET: Final = istr("X-Amz-Target")
_ORIGIN: Final = istr("Origin")
_UNWATCHED: Final = nullcontext()
#: To look a member up in an enumeration takes as long as ten lines of this.
_ANYONE: Final = Access.ANYONE
_OF_OPERATION: Final = Leave.OF_OPERATION


class Dispatcher:
    """Answers every exchange, in this order: its head, route, who asks, its payload, its operation.

    Args:
        routes: the first that answers a request's method and path wins.
        authenticator: says who asks.
        arns: makes the names of what leave is asked for.
        allow_origins: origins of web pages that may ask, besides those of this host.
        on_refused: told the name of each error that a request is answered with.
        proxies: addresses of proxies, through which others ask.
        gathered: the quota of bodies that are held whole; None bounds nothing.
    """

    def __init__(
        self,
        routes: tuple[Route, ...],
        authenticator: Authenticator,
        arns: Arns,
        allow_origins: frozenset[str],
        on_refused: Callable[[str], None],
        proxies: Container[object] = (),
        gathered: Quota | None = None,
    ) -> None:
        self._routes = routes
        # A client asks for the same again and again; whoever does not asks in vain, or for little.
        self._find = lru_cache(_REMEMBERED_ROUTES)(self._find_anew)
        self._owners = lru_cache(_REMEMBERED_OWNERS)(self._owners_of)
        self._authenticator = authenticator
        self._asks = authenticator.asks
        self._arns = arns
        self._allow_origins = allow_origins
        self._on_refused = on_refused
        self._proxies = proxies
        self._gathered = gathered

    async def __call__(self, exchange: Exchange) -> None:
        """Answer an exchange; returns when its operation is over."""
        errors: ErrorDialect = aws_rest_json  # as long as it is not known whose client it is
        visitor = exchange.visitor
        measured = visitor.account.measured
        began = time.thread_time() if measured else 0.0
        recognised, identity = False, ANYBODY
        # What is called is taken out first: 3.11 finds an attribute quickly, and no such method.
        owners_of = self._owners
        exchange.holding = HeldBytes(self._gathered, owners_of(exchange.peer))
        try:
            check_head(exchange)
            route, named, deed = self._route_of(exchange)
            errors = route.errors
            if visitor.reserved and not route.reserved:
                visitor.admit()
            with audited(route, exchange) if route.watched else _UNWATCHED as asked:
                if route.access is not _ANYONE:
                    if self._asks:
                        request = _AskedRequest(exchange, route.payload, deed)
                        identity = await self._authenticated(request, route)
                    if _ORIGIN in exchange.headers or route.control:
                        self._check_origin(exchange, route, identity)
                    recognised = True
                    exchange.recognised()
                sender = identity if asked is None else asked.noting(identity)
                visitor.begun()
                try:
                    if route.payload.prepares:
                        await route.payload.prepare(exchange)
                    operation = route.operation
                    await operation(exchange, sender, named)
                finally:
                    visitor.ended()
        except ApiError as error:
            self._refuse(exchange, error, errors)
            # Where nobody is asked for their name, what they ask in vain counts all the same.
            if recognised and identity is ANYBODY and _is_the_clients(error):
                recognised = False
                exchange.visit.in_vain()
        except ConnectionError:
            log.info(_line("client left", exchange))
        except asyncio.CancelledError:
            log.info(_line("client left", exchange))
            raise
        except Exception as fault:
            self._refuse(exchange, InternalServerError(), errors, fault)
        finally:
            exchange.operation_over()
            if not recognised:
                exchange.visit.cost(time.thread_time() - began if measured else 0.0)

    def in_reserve(self, method: str, path: str) -> bool:
        """Whether a request is one that the reserve is for."""
        return any(
            route.reserved and method in route.methods and route.path.fullmatch(path)
            for route in self._routes
        )

    def _route_of(self, exchange: Exchange) -> _Found:
        """Find the route of a request by its method, its path and its X-Amz-Target."""
        path, target = exchange.path, exchange.headers.get(_TARGET, "")
        is_short = len(path) + len(target) <= _LONGEST_REMEMBERED
        find_route = self._find if is_short else self._find_anew
        found = find_route(exchange.method, path, target)
        requires = found[0].requires
        if requires is not None:
            requires(exchange)
        return found

    def _find_anew(self, method: str, path: str, target: str) -> _Found:
        route, named = find(self._routes, method, path, target)
        action = resource = ""  # which the operation asks for itself
        if route.access is not _ANYONE and route.leave is not _OF_OPERATION:
            action = route.action
            # What is longer is no endpoint's name, and is not looked for in patterns to its end.
            resource = self._arns.of("endpoint", named["endpoint"][: MAX_ENDPOINT_NAME + 1])
        return route, named, Deed(action, resource, route.service)

    def _authenticated(self, asked: AskedRequest, route: Route) -> Awaitable[Identity]:
        """Find out who asks by the request, refusing who may not."""
        return self._authenticator.authenticate(
            asked, bearer_allowed=route.access is Access.SIGNED_OR_BEARER
        )

    def _check_origin(self, exchange: Exchange, route: Route, identity: Identity) -> None:
        """Refuse who may not ask from where they do: from this place, or by this page (3-4)."""
        if route.control and identity.principal is None:
            headers = tuple(exchange.raw_headers)
            check_nearness(exchange.peer, exchange.version, headers, self._proxies)
        check_origin(exchange.headers, self._allow_origins, encrypted=exchange.encrypted)

    def _owners_of(self, peer: str) -> tuple[str, ...]:
        """Whose share an address's bodies are of; nobody's where it stands for many."""
        return () if peer in self._proxies else (f"address {peer_of(peer)}",)

    def _refuse(
        self,
        exchange: Exchange,
        error: ApiError,
        errors: ErrorDialect,
        fault: Exception | None = None,
    ) -> None:
        """Answer with an API error, and log it in one line; a fault of ours with its traceback.

        The line has the status that the client gets: none where a response has begun.
        """
        self._on_refused(error.name)
        answer = None if exchange.answered else errors(error)
        reason = cut(error.for_operator, LOGGED_CHARACTERS)
        log.log(
            _level(error),
            _line("refused", exchange, **_statuses(answer), error=error.name, reason=reason),
            exc_info=fault,
        )
        if answer is None:
            exchange.abort()  # a second answer would be taken for the first one's content
        else:
            exchange.respond(answer.status, answer.body, answer.headers)


class _AskedRequest(AskedRequest):
    """An exchange's request, with its payload by a route's rule."""

    __slots__ = ("_exchange", "_rule")

    def __init__(self, exchange: Exchange, rule: PayloadRule, deed: Deed) -> None:
        self.deed = deed
        self._exchange = exchange
        self._rule = rule

    @property
    def request(self) -> SignableRequest:
        return self._exchange.signable

    def hash_beforehand(self) -> str | None:
        return self._rule.hash_beforehand(self._exchange)

    def hash_at_hand(self, access_key_id: str) -> str | None:
        self._exchange.holding.also_of(f"access key {access_key_id}")
        return self._rule.hash_at_hand(self._exchange)

    def hash(self) -> Coroutine[Any, Any, str]:
        return self._rule.signed_hash(self._exchange)


def _is_the_clients(error: ApiError) -> bool:
    """Whether a refusal is the client's own fault, and not the container's or ours."""
    return error.status < HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, ContainerError)


def _level(error: ApiError) -> int:
    """How much a refusal is the operator's concern: most are the client's own."""
    if isinstance(error, InternalServerError):
        return logging.ERROR
    return logging.WARNING if isinstance(error, ContainerError) else logging.INFO


def _statuses(answer: ErrorResponse | None) -> dict[str, int | None]:
    """The fields of the log that have an answer's status, and the status of a gRPC call."""
    statuses: dict[str, int | None] = {"status": None if answer is None else answer.status}
    if answer is not None and "grpc-status" in answer.headers:
        statuses["grpc_status"] = int(answer.headers["grpc-status"])
    return statuses


def _line(event: str, exchange: Exchange, **fields: str | int | None) -> LogLine:
    """A line of the log on an exchange, with what its operation has noted."""
    whose = {"request_id": exchange.request_id, "peer": exchange.peer}
    return LogLine(event, **whose, **exchange.noted, **fields)
