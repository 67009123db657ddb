"""Answers of a language model in the process of ``voice``; run by ``make test-text``."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from partway.container.errors import ModelError
from partway.container.models.voice.engines.text_answers import TextAnswers
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import serving
from tests.container.models.text.tiny import make_noise
from tests.container.models.voice.wires.realtime_client import STUBS, session
from tests.wire.peers import eventually

USER = [{"role": "user", "content": "hi"}]
RUNNING = "vllm:num_requests_running"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """One loop: the engine runs on threads beside it."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="module")
def noise(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_noise(tmp_path_factory.mktemp("noise"))


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTWAY_TEXT_THREADS", "1")
    monkeypatch.setenv("PARTWAY_TEXT_CACHE_BYTES", str(4 << 20))


@pytest.fixture
def answers(noise: Path) -> Any:
    engine = TextAnswers()
    engine.load(noise)
    yield engine
    for pool in engine.pools:
        pool.close()
        pool.engine.unload()


@pytest.mark.anyio
async def test_an_answer_comes_in_deltas_with_the_reason_of_its_end(answers: TextAnswers) -> None:
    deltas = [delta async for delta in answers.answer(USER, {"max_tokens": 8, "temperature": 0})]
    assert len(deltas) > 2
    assert "".join(delta.get("content") or "" for delta in deltas)
    assert deltas[-1]["finish_reason"] in ("length", "stop")


@pytest.mark.anyio
async def test_closing_an_answer_ends_its_generation(answers: TextAnswers, noise: Path) -> None:
    async with aclosing(answers.answer(USER, {"max_tokens": 200})) as deltas:
        await anext(deltas)
    running = partial(answers._model.metrics.get_sample_value, RUNNING, {"model_name": noise.name})
    await eventually(lambda: running() == 0)


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


@pytest.mark.anyio
async def test_metrics_of_the_model_and_its_threads_are_on_the_page(noise: Path) -> None:
    settings = VoiceSettings(answers=f"text:{noise}", turns="stub")
    async with (
        serving(Voice(settings)) as served,
        aiohttp.ClientSession() as client,
        client.get(f"{served.url}/metrics") as response,
    ):
        page = await response.text()
    assert f'{RUNNING}{{model_name="{noise.name}"}} 0.0' in page
    assert 'partway_voice_jobs_running{engine="answering"} 0.0' in page


def test_a_place_is_needed() -> None:
    with pytest.raises(ValueError, match="text:/opt/ml/model"):
        TextAnswers().load(None)
