"""What ``/ping`` is told."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from partway.container.errors import ModelError
from partway.container.health import Health
from tests.container.wire import until


class Word:
    """A model's word on its health, which may be withheld."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: bool | Exception = True
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self) -> bool:
        self.asked += 1
        assert self.go_on.wait(5)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def loaded(word: Word, **options: float) -> Health:
    health = Health(word, **options)
    health.set_loaded()
    return health


@pytest.mark.clause("1.1-3")
async def test_until_it_is_loaded() -> None:
    word = Word()
    health = Health(word)
    assert await health.trouble() == "the model has been loading for 0 s"
    assert not health.loaded
    health.set_loaded()
    assert health.loaded
    assert await health.trouble() is None
    assert word.asked == 1


async def test_its_word_is_taken_for_a_while() -> None:
    word = Word()
    health = loaded(word, age=50)
    assert [await health.trouble() for _ in range(10)] == [None] * 10
    assert word.asked == 1
    health._age = 0
    word.says = False
    assert await health.trouble() == "the model says that it is not healthy"
    assert word.asked == 2


async def test_its_last_word_stands_while_a_new_one_is_on_its_way() -> None:
    word = Word()
    health = loaded(word, age=50)
    assert await health.trouble() is None
    word.go_on.clear()
    health._asked -= 60
    assert await health.trouble() is None, "nobody waits"
    await until(lambda: word.asked == 2)
    health._asked -= 60
    waiting = asyncio.create_task(health.trouble())
    await asyncio.sleep(0)
    assert waiting.done() is False or "has not returned" in str(waiting.result())
    word.go_on.set()
    await waiting


async def test_a_word_that_is_too_old_does_not_stand() -> None:
    word = Word()
    health = loaded(word, age=50)
    assert await health.trouble() is None
    word.says = False
    health._asked -= 110
    assert await health.trouble() == "the model says that it is not healthy"


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ModelError("the GPU is gone"), "the GPU is gone"),
        (LookupError("a path of this machine"), "the model failed: LookupError"),
        (StopIteration(), "the model failed: RuntimeError"),
    ],
)
async def test_a_word_that_fails(error: Exception, reason: str) -> None:
    word = Word()
    word.says = error
    assert await loaded(word).trouble() == reason


@pytest.mark.clause("1.1-2")
async def test_a_word_that_does_not_come() -> None:
    word = Word()
    word.go_on.clear()
    health = loaded(word, timeout=0.25, age=0)
    began = time.monotonic()
    reasons = await asyncio.gather(*(health.trouble() for _ in range(20)))
    assert time.monotonic() - began < 4, "one after the other would be five seconds"
    assert {reason[:44] for reason in reasons if reason} == {
        "the model's healthy() has not returned for 0"
    }
    assert await health.trouble() is not None
    assert word.asked == 1, "however many ask, one thread waits"
    word.go_on.set()
    assert health._answer is not None
    await asyncio.wait((health._answer,))
    assert await health.trouble() is None


async def test_workers_that_cannot_serve() -> None:
    trouble: list[str | None] = ["no worker is up"]
    health = Health(Word(), lambda: trouble[0])
    health.set_loaded()
    assert await health.trouble() == "no worker is up"
    trouble[0] = None
    assert await health.trouble() is None


async def test_the_log_hears_of_a_change_once(caplog: pytest.LogCaptureFixture) -> None:
    word = Word()
    word.says = False
    health = loaded(word, age=0)
    with caplog.at_level("INFO", "partway.container.health"):
        for _ in range(3):
            await health.trouble()
        word.says = True
        for _ in range(3):
            await health.trouble()
    assert [record.getMessage() for record in caplog.records] == [
        '/ping answers 503 reason="the model says that it is not healthy"',
        "the model is healthy",
    ]
