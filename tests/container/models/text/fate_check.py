"""What one client could do to all others. Needs the text extra."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from transformers.generation.continuous_batching.continuous_api import BackgroundThreadStatus

from partway.container.errors import ModelError
from partway.container.models.text import engine as engines
from partway.container.models.text.generation import Generation
from partway.container.models.text.generation_request import MAX_TURNS, ChatTurn
from partway.container.models.text.prompts import Prompts
from partway.container.models.text.settings import TextSettings
from tests.container.models.text.engine_check import GREEDY, until
from tests.container.models.text.faults_check import Faulty, close_of
from tests.container.models.text.tiny import PAD, make_chain, tokenizer


async def length_of(generation: Generation) -> int:
    async for _ in generation:
        pass
    return len(generation.tokens)


async def test_replies_beyond_the_cache_wait_for_their_turn(serve, tmp_path: Path) -> None:
    """None that has begun gives way, the first comes first, and a waiting one can leave."""
    settings = TextSettings(threads=1, cache_bytes=1)
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    engine = model.engine
    prompt = model.tokenizer("f")["input_ids"]
    most = engine.context // 2 - len(prompt)  # two fit
    replies = [engine.generate(prompt, most, GREEDY) for _ in range(6)]
    assert (engine.running, engine.waiting) == (2, 4)
    replies[3].cancel()
    assert (engine.running, engine.waiting) == (2, 3)
    ended: list[int] = []

    async def follow(number: int) -> int:
        length = await length_of(replies[number])
        ended.append(number)
        return length

    async with asyncio.timeout(20):
        lengths = await asyncio.gather(*(follow(number) for number in (0, 1, 2, 4, 5)))
    assert set(lengths) == {most}
    assert sorted(ended[:2]) == [0, 1]
    assert sorted(ended[2:4]) == [2, 4]
    assert (engine.running, engine.waiting) == (0, 0)


async def test_a_large_reply_is_not_overtaken_by_small_ones(serve, tmp_path: Path) -> None:
    settings = TextSettings(threads=1, cache_bytes=1)
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    engine = model.engine
    prompt = model.tokenizer("f")["input_ids"]
    small = engine.context // 2 - len(prompt)
    begun = engine.generate(prompt, small, GREEDY)
    large = engine.generate(prompt, engine.context - len(prompt), GREEDY)
    behind = engine.generate(prompt, 1, GREEDY)
    assert (engine.running, engine.waiting) == (1, 2)
    async with asyncio.timeout(20):
        await anext(behind)
        assert large.over
        assert begun.over


async def test_waiting_is_no_stall(serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps count, whosever they are; also those that compute a piece of a prompt alone."""
    settings = TextSettings(threads=1, cache_bytes=1, batch_tokens=4)
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    engine = model.engine
    step = engine._batching._manager.batch_processor._generation_step
    monkeypatch.setattr(engines, "STALL_TIMEOUT", 3.0)
    monkeypatch.setattr(engines, "HUNG_AFTER", 3.0)
    monkeypatch.setattr(engines, "WATCH_INTERVAL", 0.02)

    def slow(network: object) -> None:
        threading.Event().wait(0.2)
        step(network)

    engine._batching._manager.batch_processor._generation_step = slow
    size = engine.context - 2  # each prompt takes longer than STALL_TIMEOUT
    replies = [engine.generate([token] * size, 1, GREEDY) for token in range(2)]
    async with asyncio.timeout(90):
        for reply in replies:
            while not reply.over:
                assert engine.trouble is None
                await asyncio.sleep(0.01)
            assert await length_of(reply) == 1


async def test_one_leaves_while_the_step_that_fills_its_block_is_under_way(
    serve, noise: Path
) -> None:
    """As it is with asynchronous batching, where the next step is made ready meanwhile."""
    model, _ = await serve(noise)
    batching = model.engine._batching
    processor = batching._manager.batch_processor
    update = processor.update_batch

    def cancel_and_update() -> None:
        for name in list(processor.scheduler.active_requests):
            processor.scheduler.set_request_cancellation(name)
        processor.scheduler.clear_cancelled_requests()
        processor.use_async_batching = True  # as to what it makes of those that are gone
        try:
            update()
        finally:
            processor.use_async_batching = False
            cancelled.set()

    cancelled = threading.Event()
    processor.update_batch = cancel_and_update
    async with model.engine.generate([1] * 40, 10, GREEDY):
        await until(cancelled.is_set)
    processor.update_batch = update
    assert await length_of(model.engine.generate([1] * 40, 10, GREEDY)) <= 10
    assert model.engine._batching is batching, "the step has failed"


async def test_a_thread_that_is_held_up_while_it_fails(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reports each request of the step, and only then that the step has failed."""
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"))
    Faulty(model, "!", RuntimeError("broken"))
    loop = asyncio.get_running_loop()
    record = BackgroundThreadStatus.record_fatal_error

    def record_late(status: BackgroundThreadStatus, error: Exception) -> None:
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(10)
        record(status, error)

    monkeypatch.setattr(BackgroundThreadStatus, "record_fatal_error", record_late)
    prompt = model.tokenizer("f")["input_ids"]
    replies = [model.engine.generate(prompt, 40, GREEDY) for _ in range(4)]
    for reply in replies:
        await anext(reply)
    with pytest.raises(ModelError, match="the model failed: RuntimeError"):
        await length_of(model.engine.generate(model.tokenizer("!")["input_ids"], 5, GREEDY))
    assert {await length_of(reply) for reply in replies} == {40}


async def test_many_that_fail_at_once_are_not_the_engines_trouble(serve, tmp_path: Path) -> None:
    model, served = await serve(make_chain(tmp_path / "model", "abcdef"))
    Faulty(model, "!", RuntimeError("broken"))
    closes = await asyncio.gather(*(close_of(served, "!") for _ in range(8)))
    assert {code for code, _ in closes} == {1011}
    assert (await served.invoke("x", "text/plain")).status == 200
    assert model.healthy()


@pytest.mark.parametrize("temperature", ["1e-30", "1e-40", "5e-324"])
async def test_a_temperature_that_is_next_to_nothing(temperature: str, serve, noise: Path) -> None:
    """Logits over it are infinite, and sampling from those fails the step."""
    _, served = await serve(noise)
    greedy = await served.invoke('{"prompt": "hi", "temperature": 0}', "application/json")
    body = f'{{"prompt": "hi", "temperature": {temperature}}}'
    least = await served.invoke(body, "application/json")
    assert (least.status, least.body) == (200, greedy.body)


async def test_newcomers_do_not_hide_that_the_engine_hangs(
    serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"))
    goes_on = threading.Event()
    network = model.engine._loaded.model
    network.model.embed_tokens.register_forward_pre_hook(lambda *_: goes_on.wait(30) and None)
    monkeypatch.setattr(engines, "HUNG_AFTER", 0.2)
    prompt = model.tokenizer("f")["input_ids"]
    replies = []
    try:
        async with asyncio.timeout(10):
            while model.engine.trouble is None:
                replies.append(model.engine.generate(prompt, 1, GREEDY))
                await asyncio.sleep(0.05)  # newcomers, oftener than it takes to notice
        assert "has computed nothing" in model.engine.trouble
    finally:
        goes_on.set()
        for reply in replies:
            reply.cancel()


def test_a_conversation_that_hardly_shrinks() -> None:
    """Turns of many characters and few tokens, before one of many tokens: each look drops one."""
    prompts = Prompts(tokenizer(), 40_000)
    looks = 0
    look = prompts._tokens

    def counted(*turns_and_tools: Any) -> list[int]:
        nonlocal looks
        looks += 1
        return look(*turns_and_tools)

    prompts._tokens = counted  # type: ignore[method-assign, assignment]
    said = [ChatTurn("user", PAD * 4) for _ in range(MAX_TURNS - 2)]
    said += [ChatTurn("user", "x" * 39_900), ChatTurn("user", "a")]
    assert len(prompts.prompt(said, 10, whole=False).tokens) <= 40_000
    assert looks <= 12
