"""Admission of replies to the engine: first come, first served, as the cache has room."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

_T = TypeVar("_T")


class ReplyAdmission(Generic[_T]):
    """Keeps room in the cache for each admitted reply, up to its greatest length.

    So a reply that has begun always finds the room that it still needs. A reply waits until there
    is room for it, even if a smaller one behind it would fit. Its caller bounds the queue.

    Args:
        room: size of the cache.
        slots: most admitted replies.
    """

    def __init__(self, room: int, slots: int) -> None:
        self._room = room
        self._slots = slots
        self._waiting: deque[tuple[_T, int]] = deque()
        self._admitted: dict[_T, int] = {}

    @property
    def admitted(self) -> list[_T]:
        return list(self._admitted)

    @property
    def usage(self) -> float:
        """Share of the cache that is kept for the admitted replies, from 0 to 1."""
        return sum(self._admitted.values()) / self._room

    def wait(self, reply: _T, room: int) -> None:
        """Let a reply wait at the end of the queue for its room."""
        self._waiting.append((reply, room))

    def next(self) -> _T | None:
        """Admit the reply that has waited longest; None if it has to wait on."""
        if not self._waiting or len(self._admitted) >= self._slots:
            return None
        reply, room = self._waiting[0]
        # One that is larger than the cache is admitted alone, and fails, rather than wait forever.
        if self._admitted and sum(self._admitted.values()) + room > self._room:
            return None
        self._waiting.popleft()
        self._admitted[reply] = room
        return reply

    def leave(self, reply: _T) -> None:
        """Give back the room of a reply that is over, or take it out of the queue."""
        if self._admitted.pop(reply, None) is None:
            self._waiting = deque(each for each in self._waiting if each[0] is not reply)
