"""The language model with a clock: the times of its tokens and of their parts.

``partway-container serve --model benchmarks.text_stamps:StampedText`` serves it. A request to
``/invocations`` returns the times since the last one, as JSON, and forgets them.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

from transformers.generation.continuous_batching.requests import GenerationOutput

from partway.container import Reply, Request, Stream
from partway.container.models.text import engine
from partway.container.models.text.batching import Batching
from partway.container.models.text.loading import Loaded
from partway.container.models.text.model import Text
from partway.container.models.text.settings import TextSettings
from partway.protocol.parts import PayloadPart


class Stamps:
    """Times by ``time.perf_counter``, which all processes of a Linux machine share.

    Attributes:
        steps: when each step of the engine brought tokens, and how many.
        first: by request, when its first token was there; written by the engine's thread.
        left: by prompt, when its first part had been written.
    """

    def __init__(self) -> None:
        self.steps: list[tuple[float, int]] = []
        self.first: dict[str, tuple[list[int], float]] = {}
        self.left: dict[str, float] = {}

    def delivered(self, outputs: list[GenerationOutput]) -> None:
        now = time.perf_counter()
        self.steps.append((now, len(outputs)))
        for output in outputs:
            if len(output.generated_tokens) == 1:
                self.first[output.request_id] = output.prompt_ids, now


class StampedText(Text):
    """``text``, noting times."""

    def __init__(self) -> None:
        super().__init__()
        self._stamps = Stamps()

    def load(self, model_dir: Path) -> None:
        stamps = self._stamps

        class StampedBatching(Batching):
            def __init__(
                self,
                loaded: Loaded,
                settings: TextSettings,
                deliver: Callable[[list[GenerationOutput]], None],
            ) -> None:
                def stamp(outputs: list[GenerationOutput]) -> None:
                    stamps.delivered(outputs)
                    deliver(outputs)

                super().__init__(loaded, settings, stamp)

        engine.Batching = StampedBatching  # the engine makes it by this name
        super().load(model_dir)

    async def stream(self, stream: Stream) -> None:
        await super().stream(cast("Stream", _StampedStream(stream, self._stamps)))

    async def invoke(self, request: Request) -> Reply:
        stamps = self._stamps
        decode = self._loaded.decode
        found = {
            "steps": list(stamps.steps),
            "first": {decode(prompt): at for prompt, at in stamps.first.values()},
            "left": stamps.left,
        }
        body = json.dumps(found).encode()
        stamps.steps.clear()
        stamps.first.clear()
        stamps.left.clear()
        return Reply(body, "application/json")


class _StampedStream:
    """A stream that notes when the first part of its one reply has been written."""

    def __init__(self, stream: Stream, stamps: Stamps) -> None:
        self._stream = stream
        self._stamps = stamps
        self._prompt = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def messages(self) -> AsyncIterator[str | bytes]:
        async for message in self._stream.messages():
            self._prompt = str(message)  # the last one; the first one is the session
            yield message

    async def send_part(self, part: PayloadPart) -> None:
        await self._stream.send_part(part)
        self._stamps.left.setdefault(self._prompt, time.perf_counter())
