"""Watches: a stream of changes of objects, one line of JSON each."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from partway.gateway.apis.kubernetes.change_history import ObjectChange
from partway.gateway.apis.kubernetes.custom_object import CustomKind, CustomObject
from partway.gateway.apis.kubernetes.errors import TooManyRequests, VersionExpired, status_of
from partway.gateway.apis.kubernetes.limits import (
    BOOKMARK_INTERVAL,
    MAX_WATCHES,
    MAX_WATCHES_OF_ONE,
    WATCH_LIFETIME,
    WATCH_WRITE,
)
from partway.gateway.apis.kubernetes.objects import CustomObjects
from partway.gateway.apis.kubernetes.selectors import Selector
from partway.gateway.http.exchange import Exchange
from partway.gateway.quota import NOBODY, Quota, QuotaFull, QuotaLimits
from partway.gateway.timing.clock import Clock
from partway.gateway.timing.deadlines import set_or_over


@dataclass(frozen=True, slots=True)
class WatchAsked:
    """A request for a watch.

    Attributes:
        since: the version that the client has seen; None to begin with all objects.
        bookmarks: whether the client gets versions at which none of its objects has changed.
        show: returns an object in the client's format; called with whether it is the first one.
        stands: whether the client may still see the objects.
        principal: the client's name; None if clients have no names.
    """

    kind: CustomKind
    selector: Selector
    since: int | None
    seconds: float
    bookmarks: bool
    show: Callable[[CustomObject, bool], dict[str, Any]]
    stands: Callable[[], bool]
    principal: str | None = None


class Watches:
    def __init__(self, objects: CustomObjects, clock: Clock) -> None:
        self._objects = objects
        self._clock = clock
        self._open = Quota(QuotaLimits(MAX_WATCHES, MAX_WATCHES_OF_ONE))
        self._closing = False

    def close(self) -> None:
        """End all watches, and refuse new ones: clients return to the next gateway."""
        self._closing = True
        self._objects.history.wake_all()

    async def serve(self, exchange: Exchange, asked: WatchAsked) -> None:
        """Send changes to a client until its time is over.

        Raises:
            TooManyRequests: the limit of open watches, or the client's share, is reached.
            VersionExpired: the changes since its version are forgotten.
            ClientLeft: the client has left, or does not read.
        """
        if self._closing:
            raise _full(NOBODY, MAX_WATCHES)
        owner = asked.principal or NOBODY
        try:
            self._open.take(1, owner)
        except QuotaFull as full:
            raise _full(full.owner, full.most) from None
        try:
            if asked.since is not None:
                self._objects.history.since(asked.since)
            await self._serve(exchange, asked)
        finally:
            self._open.give_back(1, owner)

    async def _serve(self, exchange: Exchange, asked: WatchAsked) -> None:
        history = self._objects.history
        news = history.waiter()
        told = _Told(asked)
        end = self._clock.time() + min(asked.seconds, WATCH_LIFETIME)
        bookmark = self._clock.time() + BOOKMARK_INTERVAL
        try:
            version = asked.since
            await exchange.begin(HTTPStatus.OK, {"Content-Type": "application/json"})
            if version is None:
                version = history.latest
                await _write(exchange, told.all(self._objects))
            while not self._closing and asked.stands():
                news.clear()
                now = self._clock.time()
                try:
                    changes = history.since(version)
                except VersionExpired as error:
                    await exchange.write(_line("ERROR", status_of(error)))
                    break
                version = history.latest
                await _write(exchange, told.changes(changes))
                if now >= end:
                    break
                if asked.bookmarks and now >= bookmark:
                    bookmark = now + BOOKMARK_INTERVAL
                    await exchange.write(told.bookmark(version))
                # The permission is checked this often, even if the client asks for no bookmarks.
                await set_or_over(news, self._clock, min(end - now, BOOKMARK_INTERVAL))
            await exchange.end()
        finally:
            history.forget(news)


def _full(owner: str, most: int) -> TooManyRequests:
    words = f"{most} watches are open, or the gateway stops; try again later"
    if owner != NOBODY:
        words = f"{most} watches of {owner} are open, which is the limit; close some of them"
    return TooManyRequests(words, retryAfterSeconds=1)


async def _write(exchange: Exchange, lines: Iterator[bytes]) -> None:
    """Write lines, a few at a time: all objects may be 256 MiB, for a client that reads nothing."""
    written, size = list[bytes](), 0
    for line in lines:
        written.append(line)
        size += len(line)
        if size >= WATCH_WRITE:
            await exchange.write(b"".join(written))
            await asyncio.sleep(0)  # other tasks get their turn, however fast the client reads
            written, size = [], 0
    await exchange.write(b"".join(written))


class _Told:
    def __init__(self, asked: WatchAsked) -> None:
        self._asked = asked
        self._first = True

    def all(self, objects: CustomObjects) -> Iterator[bytes]:
        """Yield all objects as if each had just been made."""
        for each in sorted(objects.all(self._asked.kind), key=lambda each: each.key):
            if self._asked.selector(each):
                yield self._shown("ADDED", each)

    def changes(self, changes: list[ObjectChange]) -> Iterator[bytes]:
        """Yield changes of selected objects; one that leaves the selection counts as deleted."""
        for kind, changed, before in changes:
            if changed.kind is not self._asked.kind:
                continue
            was = before is not None and self._asked.selector(before)
            does = kind != "DELETED" and self._asked.selector(changed)
            if was and does:
                yield self._shown("MODIFIED", changed)
            elif does:
                yield self._shown("ADDED", changed)
            elif was:
                yield self._shown("DELETED", changed)

    def bookmark(self, version: int) -> bytes:
        kind = self._asked.kind
        said = {
            "kind": kind.kind,
            "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": str(version), "creationTimestamp": None},
        }
        return _line("BOOKMARK", said)

    def _shown(self, what: str, each: CustomObject) -> bytes:
        shown, self._first = self._asked.show(each, self._first), False
        return _line(what, shown)


def _line(what: str, shown: dict[str, Any]) -> bytes:
    return json.dumps({"type": what, "object": shown}, separators=(",", ":")).encode() + b"\n"
