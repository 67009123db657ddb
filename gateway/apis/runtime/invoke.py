"""InvokeEndpoint: a request to a container, and its whole answer back (section 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.runtime.errors import aws_runtime
from partway.gateway.containers.container_requests import CONTENT_TYPE, CUSTOM_ATTRIBUTES
from partway.gateway.containers.failures import answer_too_large
from partway.gateway.containers.invocation import Invocation, Invocations
from partway.gateway.containers.invocation_headers import (
    CLOSED_SESSION,
    INVOKED_VARIANT,
    NEW_SESSION,
    NO_PAGE,
    begun_session,
    closed_session,
    passed_on,
    session_in,
)
from partway.gateway.fleet.routing.session_affinity import StickySession
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.request_payloads import StreamedPayload
from partway.gateway.http.routes import Route
from partway.gateway.streams.invocation_target import TARGET_CONTAINER, TARGET_VARIANT
from partway.protocol.http.content_codings import CONTENT_ENCODING

#: AWS's name of the operation, also in permissions.
OPERATION: Final = "InvokeEndpoint"

#: Clause 2.1-4 holds here too: a base path may stand in front.
PATH: Final = re.compile(r"(?:/.*)?/endpoints/(?P<endpoint>[^/]+)/invocations")

#: Headers of a container's answer that the client gets under the same names.
_HANDED_BACK: Final[Mapping[str, str]] = {
    name: name
    for name in (CONTENT_TYPE, CONTENT_ENCODING, CUSTOM_ATTRIBUTES, NEW_SESSION, CLOSED_SESSION)
}


class InvokeEndpoint:
    def __init__(self, invocations: Invocations) -> None:
        self._invocations = invocations

    @property
    def routes(self) -> tuple[Route, ...]:
        payload = StreamedPayload(self._invocations.most_bytes)
        return (
            Route(
                *(OPERATION, frozenset({"POST"}), PATH, self), payload=payload, errors=aws_runtime
            ),
        )

    async def __call__(
        self, exchange: Exchange, identity: Identity, named: Mapping[str, str]
    ) -> None:
        headers = passed_on(exchange.headers)
        session = session_in(headers)
        async with self._invocations.answered(
            exchange,
            identity,
            named["endpoint"],
            headers,
            variant=headers.get(TARGET_VARIANT, ""),
            container=headers.get(TARGET_CONTAINER, ""),
            session=session,
        ) as invoked:
            said = invoked.head.handed_back(_HANDED_BACK)
            if NEW_SESSION in said or CLOSED_SESSION in said:
                _mark_sessions(said, session, invoked.lease.instance.mark)
            back = {**said, INVOKED_VARIANT: invoked.lease.variant, **NO_PAGE}
            whole = invoked.answer.rest()  # the usual case
            if whole is None:
                await pass_on(exchange, invoked, back)
            else:
                exchange.respond(200, whole, back)


def _mark_sessions(said: dict[str, str], session: StickySession, mark: str) -> None:
    """Add the instance's mark to the ids of sessions; remove a header that no client could parse.

    Args:
        said: headers of the container's answer, for the client.
        session: the request's.
    """
    for name, value in (
        (NEW_SESSION, begun_session(said.get(NEW_SESSION, ""), mark)),
        (CLOSED_SESSION, closed_session(said.get(CLOSED_SESSION, ""), session, mark)),
    ):
        if value is not None:
            said[name] = value
        else:
            said.pop(name, None)


async def pass_on(
    exchange: Exchange, invoked: Invocation, headers: Mapping[str, str], most_bytes: float = inf
) -> None:
    """Answer with the container's body: at once if it is complete, else as it comes.

    Args:
        most_bytes: the limit of the body in bytes.

    Raises:
        ContainerError: the body does not come, is not whole, or has more bytes.
        ClientLeft: the client has left.
    """
    answer = invoked.answer
    first = answer.rest()
    is_all = first is not None
    if first is None:
        first = await answer.read()
        is_all = answer.ended
    if is_all and len(first) <= most_bytes:
        exchange.respond(200, first, headers)
        return
    length = invoked.head.length
    left = most_bytes - len(first)
    if left < 0 or (length is not None and length > most_bytes):
        raise answer_too_large(most_bytes)
    if length is not None:
        headers = {**headers, "Content-Length": str(length)}
    await exchange.begin(200, headers)
    while first:
        await exchange.write(first)
        first = await answer.read()
        left -= len(first)
        if left < 0:
            raise answer_too_large(most_bytes)
    await exchange.end()
