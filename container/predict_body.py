"""The body of a request for predictions: read once, by the gateway's rules (clause 1.1-9)."""

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
    """What is known of one request's body as one for predictions.

    Attributes:
        count: how many instances it has; 0 where it is refused, or has not been read.
        refusal: why it is no request for predictions; None where it is one, or has not been read.
        text: the body as the model gets it, once it has been read.
    """

    def __init__(self) -> None:
        self.count = 0
        self.refusal: str | None = None
        self.text = b""
        self._instances: list[Any] = []

    async def instances(self, body: AsyncIterable[bytes], *, columns: bool = False) -> list[Any]:
        """The instances; asked for again, the same list.

        Args:
            body: of which nothing has been taken, unless it has been read here.
            columns: whether TF Serving's columns are read too.

        Raises:
            BodyError: it is no request for predictions (400), or cannot be taken.
        """
        from partway.protocol.prediction import PredictionFault, read_instances  # most have none

        if not self.count:
            text = await read_whole(body)
            try:
                found = read_instances(text, columns=columns, effort=_AT_ONCE)
                if found is None:
                    found = await asyncio.to_thread(read_instances, text, columns=columns)
            except PredictionFault as fault:
                self.refusal = str(fault)
                raise BodyError(400, self.refusal) from None
            assert found is not None, "it may take as long as it takes"
            request, self._instances = found
            self.text, self.count = request.body, request.instances
        return self._instances
