"""What one client could do to all others. Needs the text extra."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

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


async def test_those_that_run_leave_while_one_waits_for_room(serve, tmp_path: Path) -> None:
    """The engine lets none in while the cache is full, and none of those that ran will finish."""
    settings = TextSettings(threads=1, cache_bytes=1)
    model, _ = await serve(make_chain(tmp_path / "model", "abcdef"), settings)
    engine = model.engine
    prompt = model.tokenizer("f")["input_ids"]
    replies = [engine.generate([*prompt, each], engine.context, GREEDY) for each in range(3)]
    scheduler = engine._batching._manager.batch_processor.scheduler
    await until(lambda: scheduler.block_new_requests)
    running = set(scheduler.active_requests)
    for name, (generation, _) in list(engine._requests.items()):
        if name in running:
            generation.cancel()
    async with asyncio.timeout(10):
        assert await length_of(engine.generate(prompt, 5, GREEDY)) == 5
        for reply in replies:
            assert reply.finish == "cancelled" or await length_of(reply)


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
    greedy = await served.invoke('{"prompt": "hi", "temperature": 0}')
    least = await served.invoke(f'{{"prompt": "hi", "temperature": {temperature}}}')
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
        assert "has computed no token" in model.engine.trouble
    finally:
        goes_on.set()
        for reply in replies:
            reply.cancel()


def test_a_conversation_that_hardly_shrinks() -> None:
    """Turns of many characters and few tokens, before one of many tokens: each look drops one."""
    prompts = Prompts(tokenizer(), 40_000)
    looks = 0
    look = prompts._tokens

    def counted(turns: object) -> list[int]:
        nonlocal looks
        looks += 1
        return look(turns)  # type: ignore[arg-type]

    prompts._tokens = counted  # type: ignore[method-assign, assignment]
    said = [ChatTurn("user", PAD * 4) for _ in range(MAX_TURNS - 2)]
    said += [ChatTurn("user", "x" * 39_900), ChatTurn("user", "a")]
    assert len(prompts.prompt(said, 10, whole=False).tokens) <= 40_000
    assert looks <= 12
