"""The deltas in a chat completion's chunks, for engines that answer through them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from partway.container.models.chat.conversation import first_choice
from partway.container.models.openai_events import DONE


async def deltas_of(chunks: AsyncGenerator[bytes]) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the deltas of an answer's chunks; the last one has ``finish_reason``.

    Closing this generator closes the chunks.

    Raises:
        ModelError: a chunk is an error, or no chunk of a chat completion.
    """
    async with aclosing(chunks):
        async for data in chunks:
            if data == DONE:
                return
            choice = first_choice(data)
            delta = choice.get("delta")
            delta = delta if isinstance(delta, dict) else {}
            if reason := choice.get("finish_reason"):
                delta = {**delta, "finish_reason": reason}
            if delta:
                yield delta
