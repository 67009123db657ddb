"""Answers of a language model in the process of ``voice``; run by ``make test-text``."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines.text_answers import TextAnswers
from tests.container.models.text.tiny import make_noise
from tests.container.models.voice.wires.realtime_client import STUBS, session
from tests.wire.peers import eventually

USER = [{"role": "user", "content": "hi"}]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """One loop: the engine runs on threads beside it."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_noise(tmp_path_factory.mktemp("noise"))


@pytest.fixture
def answers(noise: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("PARTWAY_TEXT_THREADS", "1")
    monkeypatch.setenv("PARTWAY_TEXT_CACHE_BYTES", str(4 << 20))
    engine = TextAnswers()
    engine.load(noise)
    yield engine
    engine.unload()


@pytest.mark.anyio
async def test_an_answer_comes_in_deltas_with_the_reason_of_its_end(answers: TextAnswers) -> None:
    deltas = [delta async for delta in answers.answer(USER, {"max_tokens": 8, "temperature": 0})]
    assert len(deltas) > 2
    assert "".join(delta.get("content") or "" for delta in deltas)
    assert deltas[-1]["finish_reason"] in ("length", "stop")


@pytest.mark.anyio
async def test_closing_an_answer_ends_its_generation(answers: TextAnswers) -> None:
    async with aclosing(answers.answer(USER, {"max_tokens": 200})) as deltas:
        await anext(deltas)
    page = answers._model.engine.metrics_page
    await eventually(lambda: b"num_requests_running{" in page() and _running(page()) == 0)


@pytest.mark.anyio
async def test_a_request_that_is_refused_has_its_reason(answers: TextAnswers) -> None:
    with pytest.raises(ModelError, match="temperature"):
        async for _ in answers.answer(USER, {"temperature": "hot"}):
            pass


@pytest.mark.anyio
async def test_a_session_is_answered_by_it(answers: TextAnswers) -> None:
    async with session(STUBS, answers=answers) as client:
        await client.configure(output_modalities=["text"])
        await client.tell("hi", max_output_tokens=8)
        done = (await client.until("response.done"))[-1]["response"]
        assert done["status"] in ("completed", "incomplete")
        assert done["output"][0]["content"][0]["text"]


def test_a_place_is_needed() -> None:
    with pytest.raises(ValueError, match="text:/opt/ml/model"):
        TextAnswers().load(None)


def _running(page: bytes) -> float:
    line = next(each for each in page.splitlines() if b"num_requests_running{" in each)
    return float(line.rpartition(b" ")[2])
