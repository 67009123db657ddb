"""A request whose body comes in chunks: no item for the model is of two of them (clause 1.1-5)."""

from __future__ import annotations

from collections import deque

from partway.protocol.http1.request import Http1Head, Http1Request
from partway.protocol.limits import PART_OVERHEAD


class ChunkedRequest(Http1Request):
    """A request's head, and what has come of its body: no two chunks of it are ever joined.

    A body of a stated length comes in no chunks, and what has come of it is one piece.

    Attributes:
        held: bytes of what has come and nobody has taken; a chunk counts ``PART_OVERHEAD`` more
            than it has, so that a flood of tiny ones is held back too.
    """

    __slots__ = ("_chunks",)

    def __init__(self, head: Http1Head) -> None:
        super().__init__(head)
        self._chunks: deque[bytes] = deque()

    def add(self, data: bytes) -> None:
        """Some of its body has come; of one chunk, if it comes in chunks."""
        if self.head.length is not None:
            super().add(data)
            return
        self.received += len(data)
        if not self.dropped:
            self._chunks.append(data)
            self.held += len(data) + PART_OVERHEAD

    def take(self) -> bytes:
        """Return what has come and was not taken: of one chunk, if it comes in chunks."""
        if not self._chunks:
            return super().take()
        chunk = self._chunks.popleft()
        self.held -= len(chunk) + PART_OVERHEAD
        return chunk

    def drop(self) -> None:
        """Let go of what has come, and of what comes."""
        self._chunks.clear()
        super().drop()
