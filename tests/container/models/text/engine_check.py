"""Many replies at a time, and clients that leave. Needs the text extra."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partway.container.errors import Busy
from partway.container.models.text.model import Text
from partway.container.models.text.settings import Sample, TextSettings
from partway.container.testing import Served, serving
from tests.container.models.text.conftest import SETTINGS, ask
from tests.container.models.text.tiny import make_chain, make_noise

STREAMS = 64
LENGTH = 24
GREEDY = Sample(temperature=0.0)


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait for what the engine's thread does; nothing tells of it."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (another thread's)
            await asyncio.sleep(0.01)


async def say(client: Any, number: int, length: int = LENGTH) -> None:
    await ask(client, f"say {number}", temperature=0, max_new_tokens=length)


async def talk(served: Served, number: int) -> str:
    async with served.stream() as client:
        await say(client, number)
        return await client.recv()


async def test_each_of_many_says_what_it_says_alone(serve, noise: Path) -> None:
    model, served = await serve(noise)
    alone = [await talk(served, number) for number in range(STREAMS)]
    assert len(set(alone)) > STREAMS // 2, "the model hears nothing of its prompt"
    together = await asyncio.gather(*(talk(served, number) for number in range(STREAMS)))
    assert together == alone
    await until(lambda: not model.engine.held_blocks())


@pytest.mark.parametrize("window", [0, 24])
async def test_pieces_of_prompts_beside_replies_change_nothing(
    window: int, serve, tmp_path: Path
) -> None:
    """Prompts that take several steps come while others generate."""
    settings = SETTINGS.model_copy(update={"batch_tokens": 40})
    model, _ = await serve(make_noise(tmp_path / "model", window=window), settings)
    engine = model.engine
    batching = engine._batching
    prompts = [[(7 * at + number) % 256 for at in range(9 * number + 1)] for number in range(16)]

    async def tokens(prompt: list[int]) -> list[int]:
        async with engine.generate(prompt, LENGTH, GREEDY) as generation:
            async for _ in generation:
                pass
            return generation.tokens

    alone = [await tokens(prompt) for prompt in prompts]
    together = await asyncio.gather(*map(tokens, reversed(prompts)))
    assert together[::-1] == alone
    # A step ends one prompt and begins the next, with no reply beside them.
    longer = [[(5 * at + number) % 256 for at in range(300)] for number in range(2)]
    together = await asyncio.gather(*map(tokens, longer))
    assert together == [await tokens(prompt) for prompt in longer]
    assert engine._batching is batching, "a step has failed"


async def test_a_short_prompt_does_not_wait_for_a_long_one(serve, tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"batch_tokens": 4})
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    engine = model.engine
    async with engine.generate([1] * 400, 1, GREEDY) as long:
        await until(lambda: engine._batching.steps)
        async with engine.generate([2], 1, GREEDY) as short:
            assert await anext(short)
        assert not long.tokens


async def test_half_of_the_clients_are_killed(serve, noise: Path) -> None:
    """Their blocks come back at once, and the rest say what they would have said."""
    room_for_all = SETTINGS.model_copy(update={"cache_bytes": 16 << 20})
    model, served = await serve(noise, room_for_all)
    length = 300
    alone = []
    for number in range(0, STREAMS, 8):
        async with served.stream() as client:
            await say(client, number, length)
            alone.append(await client.recv())
    await until(lambda: not model.engine.held_blocks())

    clients = [await served.stream() for _ in range(STREAMS)]
    try:
        for number, client in enumerate(clients):
            await say(client, number, length)
        begun = [client.recv_streaming() for client in clients]
        for reply in begun:
            await anext(reply)
        held = model.engine.held_blocks()
        assert model.engine.running == STREAMS
        for number, client in enumerate(clients):
            if number % 2:
                client.transport.abort()
        await until(lambda: model.engine.running <= STREAMS // 2)
        await until(lambda: model.engine.held_blocks() < held)
        assert model.engine.running, "the others should go on"
        rest = {}
        for number in range(0, STREAMS, 2):
            rest[number] = "".join([piece async for piece in begun[number]])
        for at, number in enumerate(range(0, STREAMS, 8)):
            assert alone[at].endswith(rest[number])
            assert len(alone[at]) - len(rest[number]) < 20, "only the first piece was taken"
        await until(lambda: not model.engine.held_blocks())
        assert not model.engine.running
    finally:
        for client in clients:
            client.transport.abort()


async def test_tokens_come_one_by_one_and_a_cancelled_reply_gives_its_blocks_back(
    serve, tmp_path: Path
) -> None:
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"))
    prompt = model.tokenizer("f")["input_ids"]
    async with model.engine.generate(prompt, 400, GREEDY) as generation:
        first = await anext(generation)
        assert model.tokenizer.decode(first)[0] == "a"
        assert model.engine.held_blocks()
    assert generation.finish == "cancelled"
    await until(lambda: not model.engine.held_blocks())
    with pytest.raises(StopAsyncIteration):
        await anext(generation)


async def test_a_reply_ends_where_the_context_does(serve, tmp_path: Path) -> None:
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"))
    prompt = model.tokenizer("f" * (model.engine.context - 3))["input_ids"]
    async with model.engine.generate(prompt, 100, GREEDY) as generation:
        tokens = [token async for new in generation for token in new]
    assert model.tokenizer.decode(tokens) == "abc"
    assert generation.finish == "length"


async def test_a_cache_that_is_smaller_than_the_context(serve, tmp_path: Path) -> None:
    """The engine knows, and more replies than fit take turns."""
    settings = TextSettings(max_new_tokens=60, threads=1, cache_bytes=1)
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    assert model.engine.context < 200
    replies = await asyncio.gather(*(talk(served, number) for number in range(10)))
    assert set(replies) == {"abcdef" * (LENGTH // 6)}


async def test_over_the_limit_of_replies(serve, tmp_path: Path) -> None:
    settings = TextSettings(generations=2, threads=1, cache_bytes=4 << 20)
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    prompt = model.tokenizer("f")["input_ids"]
    async with (
        model.engine.generate(prompt, 400, GREEDY),
        model.engine.generate(prompt, 400, GREEDY),
    ):
        with pytest.raises(Busy, match="2 replies are under way already"):
            model.engine.generate(prompt, 1, GREEDY)
        answer = await served.invoke("f", "text/plain")
        assert (answer.status, answer.body) == (503, b"2 replies are under way already\n")
    assert (await served.invoke("f", "text/plain")).status == 200


async def test_temperature_and_top_p_are_each_requests_own(serve, noise: Path) -> None:
    model, _ = await serve(noise)
    prompt = model.tokenizer("hi")["input_ids"]

    async def tokens(sample: Sample) -> list[int]:
        async with model.engine.generate(prompt, 24, sample) as generation:
            async for _ in generation:
                pass
            return generation.tokens

    greedy, narrow, hot, other = await asyncio.gather(
        tokens(GREEDY), tokens(Sample(1.0, 1e-6)), tokens(Sample(2.0)), tokens(Sample(2.0))
    )
    assert greedy == narrow
    assert hot not in (greedy, other)


async def test_unload_ends_the_thread(noise: Path) -> None:
    def engines() -> list[str]:
        return [each.name for each in threading.enumerate() if "generation_loop" in each.name]

    async with serving(Text(SETTINGS), noise):
        assert len(engines()) == 1
    assert not engines()
