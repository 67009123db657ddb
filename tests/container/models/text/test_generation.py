"""One reply of the language model, between the engine that puts tokens in and who takes them."""

from __future__ import annotations

import asyncio

import pytest

from partway.container.errors import ModelError
from partway.container.models.text.generation import Generation
from partway.container.models.text.settings import Sample
from tests.wire.peers import soon


@pytest.fixture
def forgotten() -> list[Generation]:
    """Those of which the engine was told that nobody wants them."""
    return []


@pytest.fixture
def generation(forgotten: list[Generation]) -> Generation:
    return Generation(forgotten.append, (1, 2), 10, Sample())


async def test_each_item_is_what_has_come_since_the_last(generation):
    generation.extend([3], None)
    generation.extend([4, 5], None)
    assert await anext(generation) == [3, 4, 5]
    waiting = asyncio.ensure_future(anext(generation))
    await asyncio.sleep(0)
    generation.extend([6], "length")
    assert await soon(waiting) == [6]
    assert [item async for item in generation] == []
    assert (generation.prompt, generation.tokens) == ([1, 2], [3, 4, 5, 6])


async def test_its_end_is_known_before_the_last_item_is_taken(generation):
    generation.extend([3], "stop")
    assert (generation.over, generation.finish) == (True, "stop")
    assert [item async for item in generation] == [[3]]


async def test_who_leaves_cancels_and_gets_nothing_more(generation, forgotten):
    async with generation:
        generation.extend([3], None)
    assert (generation.finish, forgotten) == ("cancelled", [generation])
    assert [item async for item in generation] == []
    generation.cancel()
    assert forgotten == [generation]


async def test_a_cancelled_one_wakes_who_waits(generation):
    waiting = asyncio.ensure_future(anext(generation, None))
    await asyncio.sleep(0)
    generation.cancel()
    assert await soon(waiting) is None


async def test_one_that_is_over_is_not_cancelled(generation, forgotten):
    async with generation:
        generation.extend([], "stop")
    assert (generation.finish, forgotten) == ("stop", [])


async def test_an_error_comes_behind_what_was_there(generation):
    generation.extend([3], None)
    generation.fail(ModelError("NaN"))
    assert generation.over
    assert await anext(generation) == [3]
    with pytest.raises(ModelError, match="NaN"):
        await anext(generation)
