"""Bodies of requests that a model holds whole, bounded in all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from partway.container.errors import Busy
from partway.container.limits import MAX_HELD_BODIES
from partway.container.model import Request


class HeldBodies:
    """Counts the bytes of bodies that arrive, or wait for a worker, or are being computed."""

    def __init__(self) -> None:
        self._held = 0

    @asynccontextmanager
    async def whole(self, request: Request) -> AsyncIterator[bytes]:
        """Read a body; its bytes count until the block ends.

        Raises:
            Busy: all bodies together have more than
                :data:`~partway.container.limits.MAX_HELD_BODIES`.
        """
        body = bytearray()
        try:
            async for chunk in request.body:
                body += chunk
                self._held += len(chunk)
                if self._held > MAX_HELD_BODIES:
                    raise Busy(f"requests of more than {MAX_HELD_BODIES} bytes are under way")
            yield bytes(body)
        finally:
            self._held -= len(body)
