"""Activity of a server: which requests and streams it admits, has open, and orders to end.

A server has one :class:`Activity`, whether it serves a model or hosts an application.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Protocol

from partway.container.guard import watch
from partway.protocol.websocket.close_codes import GOING_AWAY
from partway.protocol.websocket.handshake import UpgradeError

#: The answer to a new request after SIGTERM, and the reason of a stream's Close.
STOPPING: Final = "the container is stopping"

#: The refusal of a web page's request (403).
NO_PAGES: Final = "a container takes requests from its platform, not from web pages"

#: Values of ``Sec-Fetch-Site`` that browsers send for pages of other sites (W3C Fetch Metadata
#: §2.4).
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})


class Closable(Protocol):
    """A stream that can be told to end."""

    def close(self, code: int, reason: str) -> None: ...


class Activity:
    """The streams and requests of one server, and their number.

    Args:
        limit: most streams and requests at a time, not counting ``/ping``.
        unready: why no model or application can answer yet, in words for a client; None once one
            can.

    Attributes:
        draining: while set, ``/ping`` answers 503 and nothing new begins.
        on_idle: called whenever the last stream or request has ended.
    """

    def __init__(self, limit: int, unready: Callable[[], str | None]) -> None:
        self.draining = False
        self.on_idle: Callable[[], None] = lambda: None
        self._limit = limit
        self._unready = unready
        self._running: set[asyncio.Task[Any]] = set()
        self._streams: set[Closable] = set()
        self._leaving = False

    @property
    def idle(self) -> bool:
        return not self._running

    @property
    def streams(self) -> Collection[Closable]:
        """The streams that are open or being opened."""
        return self._streams

    # --- What may begin --------------------------------------------------------------------------

    def absence(self) -> str | None:
        """Why no model or application can answer; None if one can."""
        return STOPPING if self.draining else self._unready()

    def obstacle(self) -> str | None:
        """Why no stream or request may begin (503); None if one may."""
        absence = self.absence()
        if absence is None and len(self._running) >= self._limit:
            return f"{self._limit} streams and requests are under way, and that is the limit"
        return absence

    def check_stream(self) -> None:
        """Check whether a stream may begin.

        Raises:
            UpgradeError: no stream may begin; 503, with the reason.
        """
        obstacle = self.obstacle()
        if obstacle is not None:
            raise UpgradeError(503, obstacle)

    # --- What is under way -----------------------------------------------------------------------

    def counted(self) -> AbstractContextManager[None]:
        """Return a context in which the current task counts as under way."""
        task = asyncio.current_task()
        assert task is not None, "a request is handled in a task"
        return _Counted(self, self._running, task)

    @contextmanager
    def open(self, stream: Closable) -> Iterator[None]:
        """Register a stream that is open or being opened; its task must be counted too."""
        self._streams.add(stream)
        if self._leaving:  # it missed the order; the next turn of the loop tells it
            asyncio.get_running_loop().call_soon(self.take_leave, stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    # --- What has to end -------------------------------------------------------------------------

    def leave(self) -> tuple[Closable, ...]:
        """Order streams to end, from now on; return the open ones, which the caller must tell."""
        self._leaving = True
        return tuple(self._streams)

    def take_leave(self, stream: Closable) -> None:
        """Tell a stream, unless it has ended by itself, to end: Close 1001."""
        if stream in self._streams:
            stream.close(GOING_AWAY, STOPPING)

    async def cancel(
        self, grace: float, further: Iterable[asyncio.Task[Any]] = ()
    ) -> set[asyncio.Task[Any]]:
        """Cancel everything under way, and ``further`` tasks.

        Returns:
            The tasks that have ignored the cancellation for ``grace`` seconds.
        """
        tasks = self._running.union(further)
        for task in tasks:
            task.cancel()
        if not tasks:
            return set()
        _, ignoring = await asyncio.wait(tasks, timeout=grace)
        return ignoring


class _Counted:
    """The context of a task under way; a class for speed, since each request needs one."""

    __slots__ = ("_activity", "_running", "_task")

    def __init__(
        self, activity: Activity, running: set[asyncio.Task[Any]], task: asyncio.Task[Any]
    ) -> None:
        self._activity = activity
        self._running = running
        self._task = task

    def __enter__(self) -> None:
        self._running.add(self._task)
        watch()

    def __exit__(self, *_: object) -> None:
        self._running.discard(self._task)
        if not self._running:
            self._activity.on_idle()


def is_from_a_page(headers: Iterable[tuple[str, str]]) -> bool:
    """Whether a web page made a browser send a request; the platform sends neither of its headers.

    A browser sends ``Origin`` with each upgrade and each POST of a page. It sends such a POST
    without asking if the body's type is a plain one. ``Sec-Fetch-Site`` marks a GET for another
    site's page.
    """
    for name, value in headers:  # a plain loop, for speed: every request is checked
        lower = name.lower()
        if lower == "origin":
            return True
        if lower == "sec-fetch-site" and value.strip().lower() in _OTHER_SITES:
            return True
    return False


def check_not_a_page(headers: Iterable[tuple[str, str]]) -> None:
    """Refuse a stream that a web page opens.

    A page must not use a container just because a browser can reach it.

    Raises:
        UpgradeError: the request is a page's; 403.
    """
    if is_from_a_page(headers):
        raise UpgradeError(403, "a container takes streams from its platform, not from web pages")
