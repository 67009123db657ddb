"""The dispatcher: from an exchange to its operation, and from errors to responses."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Container, Coroutine, Mapping
from contextlib import nullcontext
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from multidict import istr

from partway.gateway.access.authentication import (
    ANYBODY,
    Access,
    AskedRequest,
    Authenticator,
    Deed,
    Identity,
)
from partway.gateway.arns import Arns
from partway.gateway.http.body_quota import HeldBytes
from partway.gateway.http.error_dialects import ErrorDialect, ErrorResponse, aws_rest_json
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.peers import peer_of
from partway.gateway.http.request_payloads import PayloadRule
from partway.gateway.http.routes import Leave, Route, find
from partway.gateway.plain_text import cut
from partway.gateway.quota import Quota
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, ContainerError, InternalServerError
from partway.protocol.http.head_limits import check_head
from partway.protocol.limits import LOGGED_CHARACTERS, MAX_ENDPOINT_NAME
from partway.protocol.signatures.signed_request import SignableRequest

if TYPE_CHECKING:
    from partway.gateway.http.audit import audited

log = logging.getLogger("partway.gateway")

#: Limits of two caches: routes by method, path and X-Amz-Target, up to a length; and owners of
#: addresses.
_REMEMBERED_ROUTES: Final = 1024
_LONGEST_REMEMBERED: Final = 256
_REMEMBERED_OWNERS: Final = 1024

#: A request's route, the values from its path, and the action to permit.
_Found: TypeAlias = tuple[Route, Mapping[str, str], Deed]

_TARGET: Final = istr("X-Amz-Target")
_ORIGIN: Final = istr("Origin")
_UNWATCHED: Final = nullcontext()
#: A member lookup in an enumeration takes as long as ten lines of this module.
_ANYONE: Final = Access.ANYONE
_OF_OPERATION: Final = Leave.OF_OPERATION


class Dispatcher:
    """Answers every exchange, in this order: head, route, authentication, payload, operation.

    Args:
        routes: the first one that matches a request's method and path answers.
        allow_origins: origins of allowed web pages, besides those of this host.
        on_refused: called with the name of each error that answers a request.
        proxies: addresses of proxies, which carry other clients.
        gathered: the quota of gathered bodies; None for no limit.
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
        # Clients repeat the same few requests; others miss the caches and fail or are rare.
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
        """Answer an exchange; return when its operation is over."""
        errors: ErrorDialect = aws_rest_json  # until the route, and so the kind of client, is known
        visitor = exchange.visitor
        measured = visitor.account.measured
        began = time.thread_time() if measured else 0.0
        identity = ANYBODY
        # A local name first: 3.11 finds attributes quickly, but not such bound methods.
        owners_of = self._owners
        exchange.holding = HeldBytes(self._gathered, owners_of(exchange.peer))
        try:
            check_head(exchange)
            route, named, deed = self._route_of(exchange)
            errors = route.errors
            if visitor.reserved and not route.reserved:
                visitor.admit()
            with _audited(route, exchange) if route.watched else _UNWATCHED as asked:
                if route.access is not _ANYONE:
                    if self._asks:
                        request = _AskedRequest(exchange, route.payload, deed)
                        identity = await self._authenticated(request, route)
                    if _ORIGIN in exchange.headers or route.control:
                        self._check_origin(exchange, route, identity)
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
            # Without authentication, failed requests count as costs of an unknown sender.
            if exchange.is_recognised and identity is ANYBODY and _is_the_clients(error):
                exchange.is_recognised = False
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
            if not exchange.is_recognised:
                exchange.visit.cost(time.thread_time() - began if measured else 0.0)

    def in_reserve(self, method: str, path: str) -> bool:
        return any(
            route.reserved and method in route.methods and route.path.fullmatch(path)
            for route in self._routes
        )

    def _route_of(self, exchange: Exchange) -> _Found:
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
        action = resource = ""  # empty: the operation checks it
        if route.access is not _ANYONE and route.leave is not _OF_OPERATION:
            action = route.action
            # A longer text is no endpoint's name, and need not be matched to its end.
            resource = self._arns.of("endpoint", named["endpoint"][: MAX_ENDPOINT_NAME + 1])
        return route, named, Deed(action, resource, route.service)

    def _authenticated(self, asked: AskedRequest, route: Route) -> Awaitable[Identity]:
        return self._authenticator.authenticate(asked, route.access)

    def _check_origin(self, exchange: Exchange, route: Route, identity: Identity) -> None:
        """Refuse a request from a wrong place: another machine, or another site's page (3-4)."""
        # Most gateways only relay, for clients that are no pages.
        from partway.gateway.access.loopback_requests import check_nearness
        from partway.gateway.access.origins import check_origin

        if route.control and identity.principal is None:
            headers = tuple(exchange.raw_headers)
            check_nearness(exchange.peer, exchange.version, headers, self._proxies)
        check_origin(exchange.headers, self._allow_origins, encrypted=exchange.encrypted)

    def _owners_of(self, peer: str) -> tuple[str, ...]:
        """Return the owners of an address's bodies; none for a proxy with many clients."""
        return () if peer in self._proxies else (f"address {peer_of(peer)}",)

    def _refuse(
        self,
        exchange: Exchange,
        error: ApiError,
        errors: ErrorDialect,
        fault: Exception | None = None,
    ) -> None:
        """Answer with an API error, and log one line; a fault of ours is logged with its traceback.

        The line has the status that the client gets, unless a response has begun.
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
            headers = answer.headers_for(exchange.request_id)
            exchange.respond(answer.status, answer.body, headers)


class _AskedRequest(AskedRequest):
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


def _audited(route: Route, exchange: Exchange) -> audited:
    from partway.gateway.http import audit  # for routes that change something

    return audit.audited(route, exchange)


def _is_the_clients(error: ApiError) -> bool:
    """Say whether a refusal is the client's own fault, and not the container's or ours."""
    return error.status < HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, ContainerError)


def _level(error: ApiError) -> int:
    """Return the log level of a refusal: most are the client's own fault."""
    if isinstance(error, InternalServerError):
        return logging.ERROR
    return logging.WARNING if isinstance(error, ContainerError) else logging.INFO


def _statuses(answer: ErrorResponse | None) -> dict[str, int | None]:
    """Return the log's fields for an answer's status, and for the status of a gRPC call."""
    statuses: dict[str, int | None] = {"status": None if answer is None else answer.status}
    if answer is not None and "grpc-status" in answer.headers:
        statuses["grpc_status"] = int(answer.headers["grpc-status"])
    return statuses


def _line(event: str, exchange: Exchange, **fields: str | int | None) -> LogLine:
    whose = {"request_id": exchange.request_id, "peer": exchange.peer}
    return LogLine(event, **whose, **exchange.noted, **fields)
