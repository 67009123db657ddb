"""What a request's sender asks leave for, and what comes of it: the log of all changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from partway.gateway.access.authentication import Identity
from partway.gateway.plain_text import cut
from partway.gateway.serving.exchange import Exchange
from partway.gateway.serving.routes import Access, Leave, Route
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InternalServerError
from partway.protocol.limits import LOGGED_CHARACTERS

log = logging.getLogger("partway.audit")
# Whatever the level of the log: changes are few, and what is quiet elsewhere is to be seen here.
log.setLevel(logging.INFO)


class AskedLeave:
    """What leave was asked for in one request.

    Args:
        route: the request's.
    """

    def __init__(self, route: Route) -> None:
        self._route = route
        self._sender: Identity | None = None
        self._asked: dict[tuple[str, str], None] = {}  # in their order, each once

    def noting(self, identity: Identity) -> Identity:
        """The same sender, whose leave is noted wherever the operation asks for it."""
        self._sender = identity
        if self._route.leave is not Leave.OF_OPERATION:
            return identity

        def may(action: str, resource: str) -> bool:
            self._asked[action, resource] = None
            return identity.may(action, resource)

        return replace(identity, may=may)

    def check(self) -> None:
        """Find an operation that was to ask for its sender's leave, and has done its work without.

        Raises:
            AssertionError: it is one.
        """
        if self._route.leave is Leave.OF_OPERATION and not self._asked:
            raise AssertionError(f"{self._route.name} must ask for its sender's leave, and has not")

    def tell(self, exchange: Exchange, outcome: str) -> None:
        """Log what was asked for, and what came of it.

        Of what strangers ask for there is no line: they could fill the log with them. That they
        were refused is in the dispatcher's, which are bounded.
        """
        if self._sender is None:
            return
        actions = dict.fromkeys(action for action, _ in self._asked) or [self._route.action]
        resources = dict.fromkeys(resource for _, resource in self._asked)
        log.info(
            LogLine(
                "change asked for",
                principal=self._sender.principal,
                action=cut(" ".join(actions), LOGGED_CHARACTERS),
                resource=cut(" ".join(resources), LOGGED_CHARACTERS) or None,
                request_id=exchange.request_id,
                peer=exchange.peer,
                outcome=outcome,
            )
        )


@contextmanager
def audited(route: Route, exchange: Exchange) -> Iterator[AskedLeave]:
    """Log what comes of a request, if it is one for a change; and see that leave is asked for.

    Args:
        route: the request's.
        exchange: the request.

    Yields:
        What notes the leave that is asked for.
    """
    asked = AskedLeave(route)
    outcome = InternalServerError.name
    try:
        yield asked
        if route.access is not Access.ANYONE:
            asked.check()
        outcome = "done"
    except ApiError as error:
        outcome = error.name
        raise
    except (ConnectionError, asyncio.CancelledError):
        outcome = "client left"
        raise
    finally:
        if route.changes:
            asked.tell(exchange, outcome)
