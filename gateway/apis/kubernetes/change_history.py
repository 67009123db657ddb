"""The history of recent changes of all objects, which watches read."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.errors import VersionExpired
from partway.gateway.apis.kubernetes.limits import HISTORY_BYTES, HISTORY_CHANGES

ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


class ObjectChange(NamedTuple):
    """One change.

    Attributes:
        before: the object before the change; None if it did not exist.
    """

    type: ChangeType
    changed: CustomObject
    before: CustomObject | None

    @property
    def version(self) -> int:
        return self.changed.version


class History:
    """The latest changes, within the limits of number and size.

    Attributes:
        latest: the version of the last change.

    Args:
        latest: the version before the first change.
    """

    def __init__(self, latest: int) -> None:
        self.latest = latest
        self._forgotten = latest
        self._kept: deque[tuple[ObjectChange, int]] = deque()
        self._bytes = 0
        self._waiting: set[asyncio.Event] = set()

    def begin(self, latest: int) -> None:
        """Continue after a version; earlier changes are unknown."""
        self.latest = self._forgotten = latest

    def add(self, kind: ChangeType, changed: CustomObject, before: CustomObject | None) -> None:
        size = len(json.dumps(changed.shown()))
        self._kept.append((ObjectChange(kind, changed, before), size))
        self._bytes += size
        self.latest = changed.version
        while len(self._kept) > HISTORY_CHANGES or self._bytes > HISTORY_BYTES:
            oldest, its_size = self._kept.popleft()
            self._bytes -= its_size
            self._forgotten = oldest.version
        for each in self._waiting:
            each.set()

    def since(self, version: int) -> list[ObjectChange]:
        """Return the changes after a version, in order.

        Raises:
            VersionExpired: some of the changes are forgotten, or the version is in the future.
        """
        if not self._forgotten <= version <= self.latest:
            raise VersionExpired(
                f"too old resource version: {version} ({self._forgotten}); list the objects again"
            )
        behind = takewhile(lambda kept: kept[0].version > version, reversed(self._kept))
        return [each for each, _ in behind][::-1]

    def waiter(self) -> asyncio.Event:
        """Return an event that each change sets; pass it to :meth:`forget` at the end."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def forget(self, waiter: asyncio.Event) -> None:
        self._waiting.discard(waiter)

    def wake_all(self) -> None:
        for each in self._waiting:
            each.set()
