"""The instances of a request for predictions, read by the gateway's rules."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any, Final

from partway.container.errors import BodyError
from partway.container.serving.body import read_whole
from partway.protocol.limits import KIB

#: A body is read at once if it takes no longer than so many bytes of numbers, which is 2 to 4 ms;
#: else on a thread.
_AT_ONCE: Final = 1024 * KIB


class PredictBody:
    """One request's body as one for predictions, which is read once."""

    def __init__(self) -> None:
        self._instances: list[Any] | None = None

    async def instances(self, body: AsyncIterable[bytes]) -> list[Any]:
        """The instances; asked for again, the same list.

        Args:
            body: of which nothing has been taken, unless it has been read here.

        Raises:
            BodyError: it is no request for predictions (400), or cannot be taken.
        """
        from partway.protocol.prediction.bodies import (  # most have none
            PredictionFault,
            read_instances,
        )

        if self._instances is None:
            text = await read_whole(body)
            try:
                found = read_instances(text, effort=_AT_ONCE)
                if found is None:
                    found = await asyncio.to_thread(read_instances, text)
            except PredictionFault as fault:
                raise BodyError(400, str(fault)) from None
            assert found is not None, "it may take as long as it takes"
            self._instances = found
        return self._instances
