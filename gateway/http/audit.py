"""The audit log: permissions that a request's sender needs, and the outcome of each change."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from types import TracebackType
from typing import Any

from partway.gateway.access.authentication import Access, Identity
from partway.gateway.http.exchange import Exchange
from partway.gateway.http.routes import Leave, Route
from partway.gateway.plain_text import cut
from partway.log_lines import LogLine
from partway.protocol.errors import ApiError, InternalServerError
from partway.protocol.limits import LOGGED_CHARACTERS

log = logging.getLogger("partway.audit")
# Changes are few, and are logged here whatever the level of the log is.
log.setLevel(logging.INFO)


class ChangeGoesOn(asyncio.CancelledError):
    """The client of a change is cancelled, and the change goes on.

    Args:
        change: the task that makes it.
    """

    def __init__(self, change: asyncio.Task[Any]) -> None:
        super().__init__()
        self.change = change


class AskedLeave:
    """The permissions that one request needed."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._sender: Identity | None = None
        self._asked: dict[tuple[str, str], None] = {}  # in order, each once

    def noting(self, identity: Identity) -> Identity:
        """Return the same sender, with a note of each permission that the operation checks."""
        self._sender = identity
        if self._route.leave is not Leave.OF_OPERATION:
            return identity

        def may(action: str, resource: str) -> bool:
            self._asked[action, resource] = None
            return identity.may(action, resource)

        return replace(identity, may=may)

    def check(self) -> None:
        """Fail if an operation that must check its sender's permission has not.

        Raises:
            AssertionError: it has not.
        """
        if self._route.leave is Leave.OF_OPERATION and not self._asked:
            raise AssertionError(
                f"{self._route.name} must check its sender's permission, and has not"
            )

    def tell(self, exchange: Exchange, error: BaseException | None = None) -> None:
        """Log a change and its outcome.

        Requests of unknown senders are not logged here, since these could fill the log. The
        dispatcher logs their refusals, within bounds. ``error`` is the one that ended the
        operation; it is None for success.
        """
        if self._sender is None or not self._route.changes:
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
                outcome=self._outcome(error),
            )
        )

    def tell_later(self, exchange: Exchange, change: asyncio.Task[Any]) -> None:
        """Log the change at its end, since it goes on without its client."""

        def over(change: asyncio.Task[Any]) -> None:
            cancelled = asyncio.CancelledError() if change.cancelled() else None
            self.tell(exchange, cancelled or change.exception())

        change.add_done_callback(over)

    def _outcome(self, error: BaseException | None) -> str:
        match error:
            case None:
                return "done"
            case ApiError():
                return error.name
            case ConnectionError() | asyncio.CancelledError():
                # Operations check permissions before all else.
                return "broken off" if self._asked else "not begun"
            case _:
                return InternalServerError.name


class audited:  # noqa: N801 a context, read as a verb
    """Log the outcome of a change, and verify that a permission was checked.

    There is one line, at the end of the change; that may be after the request if its client leaves.
    The block gets the object that notes permissions.
    """

    __slots__ = ("_asked", "_exchange", "_route")

    def __init__(self, route: Route, exchange: Exchange) -> None:
        self._route = route
        self._exchange = exchange
        self._asked = AskedLeave(route)

    def __enter__(self) -> AskedLeave:
        return self._asked

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asked = self._asked
        if isinstance(error, ChangeGoesOn):
            asked.tell_later(self._exchange, error.change)
            return
        try:
            if error is None and self._route.access is not Access.ANYONE:
                asked.check()
        except AssertionError as unasked:
            error = unasked
            raise
        finally:
            asked.tell(self._exchange, error)
