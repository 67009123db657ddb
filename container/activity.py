"""What may begin on a server, what is under way, and what has to end.

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

#: What whoever asks for something new is told after SIGTERM, and whoever has a stream at its end.
STOPPING: Final = "the container is stopping"

#: What a request of a web page's is told (403).
NO_PAGES: Final = "a container takes requests from its platform, not from pages"

#: Values of ``Sec-Fetch-Site`` that browsers send for pages of others (W3C Fetch Metadata §2.4).
_OTHER_SITES: Final = frozenset({"cross-site", "same-site"})


class Closable(Protocol):
    """A stream that can be told to end."""

    def close(self, code: int, reason: str) -> None:
        """End the stream with a Close of this code and reason."""


class Activity:
    """The streams and requests of one server: how many there may be, and which there are.

    Args:
        limit: streams and requests at a time, ``/ping`` aside.
        unready: why nobody is there yet to answer, in words for a client; None once somebody is.

    Attributes:
        draining: while set, ``/ping`` answers 503 and nothing new begins.
        on_idle: called whenever the last stream and request has ended.
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
        """Whether no stream and no request is under way."""
        return not self._running

    @property
    def streams(self) -> Collection[Closable]:
        """The streams that are open, or ask to be."""
        return self._streams

    # --- What may begin --------------------------------------------------------------------------

    def absence(self) -> str | None:
        """Why nobody is there to answer; None if a model or an application is."""
        return STOPPING if self.draining else self._unready()

    def obstacle(self) -> str | None:
        """Why no stream or request may begin (503); None if one may."""
        absence = self.absence()
        if absence is None and len(self._running) >= self._limit:
            return f"{self._limit} streams and requests are under way, and that is the limit"
        return absence

    def check_stream(self) -> None:
        """Let a stream begin.

        Raises:
            UpgradeError: no stream may begin; 503, with the reason.
        """
        obstacle = self.obstacle()
        if obstacle is not None:
            raise UpgradeError(503, obstacle)

    # --- What is under way -----------------------------------------------------------------------

    def counted(self) -> AbstractContextManager[None]:
        """The time in which the current task answers a request, or serves a stream."""
        task = asyncio.current_task()
        assert task is not None, "a request is handled in a task"
        return _Counted(self, self._running, task)

    @contextmanager
    def open(self, stream: Closable) -> Iterator[None]:
        """The time in which a stream is open, or asks to be; it runs in a task that is counted."""
        self._streams.add(stream)
        if self._leaving:  # it was not there to be told; at the loop's next turn it runs
            asyncio.get_running_loop().call_soon(self.take_leave, stream)
        try:
            yield
        finally:
            self._streams.discard(stream)

    # --- What has to end -------------------------------------------------------------------------

    def leave(self) -> tuple[Closable, ...]:
        """From here on streams have to end; returns the open ones, which are to be told."""
        self._leaving = True
        return tuple(self._streams)

    def take_leave(self, stream: Closable) -> None:
        """Tell a stream, unless it has ended by itself, that it has to end: Close 1001."""
        if stream in self._streams:
            stream.close(GOING_AWAY, STOPPING)

    async def cancel(
        self, grace: float, further: Iterable[asyncio.Task[Any]] = ()
    ) -> set[asyncio.Task[Any]]:
        """Cancel what is under way, and ``further`` tasks.

        Returns:
            The tasks that have ignored it for ``grace`` seconds.
        """
        tasks = self._running.union(further)
        for task in tasks:
            task.cancel()
        if not tasks:
            return set()
        _, ignoring = await asyncio.wait(tasks, timeout=grace)
        return ignoring


class _Counted:
    """A task among those that are under way; written out, since there is one of each request."""

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
    """Whether a web page has a browser send a request: the platform sends neither of its headers.

    ``Origin`` comes with each upgrade and each POST of a page's, for which a browser asks nobody if
    the body passes for text. ``Sec-Fetch-Site`` says of a GET too that another site asks for it.

    Args:
        headers: the request's, by their names.
    """
    for name, value in headers:  # written out: every request is looked at
        lower = name.lower()
        if lower == "origin":
            return True
        if lower == "sec-fetch-site" and value.strip().lower() in _OTHER_SITES:
            return True
    return False


def check_not_a_page(headers: Iterable[tuple[str, str]]) -> None:
    """Refuse a stream that a page asks for.

    No page has business with a container that happens to listen where a browser can reach it.

    Raises:
        UpgradeError: the request is a page's; 403.
    """
    if is_from_a_page(headers):
        raise UpgradeError(403, "a container takes streams from its platform, not from pages")
