"""Schemas wait for a thread of their own, a bounded number of them, for a bounded time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from partway.container.errors import Busy, ModelError, TooSlow
from partway.container.models.text.grammar_compiler import GrammarCompiler
from partway.container.models.text.grammars import Grammars
from partway.container.models.text.output_constraints import Constraint
from partway.container.models.text.request_members import Refused
from partway.container.workers import Threads

PATIENCE = 20.0
LATER = "response_format: too many schemas wait to be compiled; send the request again later"


class Held(Grammars):
    """Grammars whose compilations wait for the test.

    Attributes:
        begun: set when a compilation has begun.
        go_on: ends the compilations.
    """

    def __init__(self) -> None:  # without a tokenizer
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def compiled(self, constraint: Constraint) -> str:
        self.begun.set()
        if not self.go_on.wait(PATIENCE):
            raise AssertionError("the test has not let it go on")
        if constraint.grammar == "wrong":
            raise Refused("response_format: cannot be compiled: wrong")
        return f"matcher of {constraint.grammar}"


class Patient(GrammarCompiler):
    runs_on = Threads(queue=2, deadline=PATIENCE)


class Hasty(GrammarCompiler):
    runs_on = Threads(queue=2, deadline=0.05)


@pytest.fixture
def held() -> Iterator[Held]:
    grammars = Held()
    yield grammars
    grammars.go_on.set()


def constraint(grammar: str = "a") -> Constraint:
    return Constraint("response_format", grammar)


async def closed(compiler: GrammarCompiler) -> None:
    await asyncio.to_thread(compiler.close)


async def test_one_at_a_time_and_a_bounded_queue(held: Held) -> None:
    compiler = Patient(held)
    compiling: list[asyncio.Task[Any]] = [
        asyncio.create_task(compiler.compiled(constraint(f"{at}"))) for at in range(4)
    ]
    done, _ = await asyncio.wait(compiling, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
    (refused,) = done
    with pytest.raises(Busy, match=LATER):
        refused.result()
    held.go_on.set()
    others = [task for task in compiling if task is not refused]
    assert await asyncio.gather(*others) == ["matcher of 0", "matcher of 1", "matcher of 2"]
    await closed(compiler)


async def test_a_schema_that_takes_too_long(held: Held) -> None:
    compiler = Hasty(held)
    with pytest.raises(TooSlow, match="response_format: takes too long to compile; send a simpler"):
        await compiler.compiled(constraint())
    with pytest.raises(Busy, match=LATER):  # the thread is not free yet
        await compiler.compiled(constraint())
    await closed(compiler)


async def test_a_refusal_is_the_client_s(held: Held) -> None:
    held.go_on.set()
    compiler = Patient(held)
    with pytest.raises(Refused, match="cannot be compiled: wrong"):
        await compiler.compiled(constraint("wrong"))
    await closed(compiler)


async def test_closing_ends_what_waits(held: Held) -> None:
    compiler = Patient(held)
    compiling = asyncio.create_task(compiler.compiled(constraint()))
    await asyncio.to_thread(held.begun.wait, PATIENCE)
    await closed(compiler)
    with pytest.raises(ModelError):
        await asyncio.wait_for(compiling, PATIENCE)


async def test_closing_one_that_compiled_nothing(held: Held) -> None:
    await closed(Patient(held))
