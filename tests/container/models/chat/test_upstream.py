"""Events of an upstream that never ends its answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import chain, repeat
from typing import Any

import pytest

from partway.container.errors import ModelError, TooSlow
from partway.container.models.chat.event_lines import MAX_EVENT_BYTES
from partway.container.models.chat.settings import ChatSettings
from partway.container.models.chat.upstream import Upstreams


class Endless(AsyncIterator[bytes]):
    """An answer of these bytes; all but the first take a turn of the loop."""

    def __init__(self, received: Iterable[bytes]) -> None:
        self._received = iter(received)
        self._begun = False
        self.closed = False

    async def __anext__(self) -> bytes:
        if self._begun:
            await asyncio.sleep(0)
        self._begun = True
        return next(self._received)

    async def aclose(self) -> None:
        self.closed = True


def answering(answer: Endless, timeout: float) -> Upstreams:
    class Answering(Upstreams):
        async def ask(self, *_: Any, **__: Any) -> Any:
            return answer

    return Answering(ChatSettings(("http://127.0.0.1:9/v1",), timeout=timeout))


@pytest.mark.parametrize("kept_open_by", [b": keep-alive\n\n", b"\n", b"id: 1\n\n"])
async def test_comments_and_blank_lines_are_no_events(kept_open_by: bytes) -> None:
    """Few bytes, for ever: the first piece has an event, and the others have none."""
    answer = Endless(chain([b"data: a\n\n", kept_open_by], repeat(b"")))
    events = answering(answer, timeout=0.05).events(b"")
    assert await anext(events) == b"a"
    with pytest.raises(TooSlow, match=r"^the upstream sent no event for 0\.05 s$"):
        await anext(events)
    assert answer.closed


async def test_many_bytes_without_an_event_end_the_answer() -> None:
    answer = Endless(repeat(b": keep-alive\n\n" * 1000))
    with pytest.raises(ModelError, match=f"more than {MAX_EVENT_BYTES} bytes came without an ev"):
        await anext(answering(answer, timeout=3600).events(b""))
    assert answer.closed
