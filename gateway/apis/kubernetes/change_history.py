"""The last changes of all objects, in their order: what watches tell from."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias

from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.errors import VersionExpired
from partway.gateway.apis.kubernetes.limits import HISTORY_BYTES, HISTORY_CHANGES

#: What has become of an object.
ChangeType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED"]


class ObjectChange(NamedTuple):
    """One change.

    Attributes:
        type: what has become of the object.
        changed: the object, as it is since then.
        before: as it was before; None if it was not there.
    """

    type: ChangeType
    changed: CustomObject
    before: CustomObject | None

    @property
    def version(self) -> int:
        """The change's version."""
        return self.changed.version


class History:
    """The last changes, so many and so large together as the limits say.

    Attributes:
        latest: the version of the last change.

    Args:
        latest: the version that the first change comes behind.
    """

    def __init__(self, latest: int) -> None:
        self.latest = latest
        self._forgotten = latest
        self._kept: deque[tuple[ObjectChange, int]] = deque()
        self._bytes = 0
        self._waiting: set[asyncio.Event] = set()

    def begin(self, latest: int) -> None:
        """Go on behind a version; what was before it is not known."""
        self.latest = self._forgotten = latest

    def add(self, kind: ChangeType, changed: CustomObject, before: CustomObject | None) -> None:
        """Note a change, and wake who waits for one."""
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
        """The changes behind a version, in their order.

        Raises:
            VersionExpired: not all of them are known any more, or the version is yet to come.
        """
        if not self._forgotten <= version <= self.latest:
            raise VersionExpired(
                f"too old resource version: {version} ({self._forgotten}); list the objects again"
            )
        behind = takewhile(lambda kept: kept[0].version > version, reversed(self._kept))
        return [each for each, _ in behind][::-1]

    def waiter(self) -> asyncio.Event:
        """An event that each change sets; :meth:`forget` it."""
        event = asyncio.Event()
        self._waiting.add(event)
        return event

    def forget(self, waiter: asyncio.Event) -> None:
        """Wake somebody no more."""
        self._waiting.discard(waiter)

    def wake_all(self) -> None:
        """Wake all who wait, though nothing has changed."""
        for each in self._waiting:
            each.set()
