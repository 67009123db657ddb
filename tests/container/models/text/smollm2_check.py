"""A real model on a CPU. Needs the text extra, and ``SMOLLM2``, a folder of :mod:`.smollm2`."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import torch

from partway.container.errors import ModelError
from partway.container.models.text.engine import Engine
from partway.container.models.text.model import Text
from partway.container.models.text.settings import Sample, TextSettings
from partway.container.testing import serving

FOLDER = Path(os.environ["SMOLLM2"])
GREEDY = Sample(temperature=0.0)
WORDS = ["the", "sea", "was", "calm", "and", "a", "small", "boat", "came", "slowly", "home"]

#: Two minutes on two idle cores; a busy machine takes several times as long.
pytestmark = pytest.mark.timeout(900)


async def tokens_of(engine: Engine, prompt: list[int], most: int) -> list[int]:
    async with engine.generate(prompt, most, GREEDY) as generation:
        async for _ in generation:
            pass
        return generation.tokens


class Steps:
    """The engine's steps, seen on its own thread."""

    def __init__(self, engine: Engine) -> None:
        self.batching = engine._batching
        self._deliver = self.batching._router._deliver
        self.batching._router._deliver = self._look
        self._last: dict[str, int] = {}
        self.gaps: Counter[int] = Counter()

    def _look(self, outputs: list[Any]) -> None:
        for output in outputs:
            now = self.batching.steps
            if output.request_id in self._last:
                self.gaps[now - self._last[output.request_id]] += 1
            self._last[output.request_id] = now
        self._deliver(outputs)


async def pings_until(url: str, over: Callable[[], bool]) -> set[int]:
    """Return the statuses that ``/ping`` has meanwhile."""
    statuses = set()
    async with aiohttp.ClientSession() as session:
        while not over():
            async with session.get(f"{url}/ping") as response:
                statuses.add(response.status)
            await asyncio.sleep(0.5)
    return statuses


async def test_a_prompt_of_7800_words_holds_up_no_one() -> None:
    model = Text(TextSettings(device="cpu"))
    async with serving(model, FOLDER) as served:
        engine = model.engine
        text = " ".join(WORDS[(n * n) % len(WORDS)] for n in range(7800))
        long = asyncio.ensure_future(tokens_of(engine, model.tokenizer(text)["input_ids"], 2))
        pings = asyncio.ensure_future(pings_until(served.url, long.done))
        steps = Steps(engine)
        beside = 0
        short = model.tokenizer("Tell me about the sea.")["input_ids"]
        while not long.done():  # newcomers, one after the other
            await tokens_of(engine, [*short, beside], 8)
            beside += 1
        assert len(long.result()) > 0
        assert await pings == {200}
        assert beside > 2, "short prompts waited for the long one"
        assert max(steps.gaps) == 1, steps.gaps
        assert engine._batching is steps.batching, "a step has failed"


async def test_more_replies_than_the_cache_holds_are_all_whole() -> None:
    replies = 40
    model = Text(TextSettings(device="cpu", cache_bytes=18 << 20))
    async with serving(model, FOLDER):
        engine = model.engine
        prompts = [
            model.tokenizer(f"Write a story number {n} about a small town by the sea.")["input_ids"]
            for n in range(replies)
        ]
        asked = [asyncio.ensure_future(tokens_of(engine, prompt, 150)) for prompt in prompts]
        await asyncio.sleep(0)
        assert (engine.running, engine.waiting) == (4, replies - 4)
        lengths = [len(tokens) for tokens in await asyncio.gather(*asked)]
        assert max(lengths) <= 150, lengths
        assert sum(lengths) > 75 * replies, lengths  # some end by themselves


async def test_nan_is_found_although_no_token_is_to_spare() -> None:
    model = Text(TextSettings(device="cpu"))
    async with serving(model, FOLDER):
        network = model.engine._loaded.model
        assert len(model.tokenizer) == network.config.vocab_size
        prompt = model.tokenizer("Tell me about the sea.")["input_ids"]
        broken = model.tokenizer("zebra")["input_ids"]
        assert not set(broken) & set(prompt)

        def spoil(_: object, inputs: tuple[torch.Tensor], output: torch.Tensor) -> torch.Tensor:
            return output.masked_fill((inputs[0] == broken[0])[..., None], torch.nan)

        network.model.embed_tokens.register_forward_hook(spoil)
        neighbours = [asyncio.ensure_future(tokens_of(model.engine, prompt, 12)) for _ in range(2)]
        with pytest.raises(ModelError, match="not a number"):
            await tokens_of(model.engine, broken, 12)
        assert [len(await neighbour) for neighbour in neighbours] == [12, 12]
