"""partway.container.models.voice.model: its settings from the environment, and its metrics."""

from __future__ import annotations

import aiohttp
import pytest
from websockets.exceptions import InvalidStatus

from partway.container.model import DEFAULT_PATH
from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.routes import Routes
from partway.container.testing import serving
from tests.conftest import ROOT
from tests.container.models.voice.wires.json_client import voice

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


async def fetch(url: str, body: str = "") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session:
        asked = session.post(url, data=body) if body else session.get(url)
        async with asked as response:
            return response.status, await response.text(errors="replace")


async def test_the_environment_has_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTWAY_VOICE_SPEAKS", "stub")
    monkeypatch.setenv("PARTWAY_VOICE_TURNS", "stub")
    async with serving(Voice()) as served:
        status, _ = await fetch(f"{served.url}/v1/speak", '{"text": "hi"}')
        assert status == 200


@pytest.mark.parametrize(
    ("engines", "level", "unset"),
    [
        ({}, "WARNING", "PARTWAY_VOICE_HEARS, PARTWAY_VOICE_SPEAKS, PARTWAY_VOICE_ANSWERS"),
        ({"hears": "stub"}, "INFO", "PARTWAY_VOICE_SPEAKS, PARTWAY_VOICE_ANSWERS"),
        ({"hears": "stub", "speaks": "stub", "answers": "stub"}, "", ""),
    ],
)
async def test_engines_that_are_not_configured_are_named(
    engines: dict[str, str], level: str, unset: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serving(Voice(VoiceSettings(**engines))):
        told = [each for each in caplog.records if "answer 501" in each.getMessage()]
    assert [each.levelname for each in told] == ([level] if level else [])
    assert all(unset in each.getMessage() for each in told)


async def test_metrics_count_its_streams_and_requests() -> None:
    async with voice() as served, served.stream("v1/listen"):
        assert (await fetch(f"{served.url}/v1/speak", '{"text": "hi"}'))[0] == 200
        status, page = await fetch(f"{served.url}/metrics")
        assert status == 200
        assert 'partway_container_open{kind="stream"} 1.0' in page
        assert 'partway_container_begun_total{kind="request"} 1.0' in page


@pytest.mark.parametrize("path", Routes(Voice()).paths)
async def test_one_stream_too_many_is_refused_by_the_settings_name(path: str) -> None:
    async with voice(streams=1) as served, served.stream("v1/listen"):
        with pytest.raises(InvalidStatus) as refused:
            await served.stream(path).__aenter__()
    response = refused.value.response
    assert (response.status_code, b"PARTWAY_VOICE_STREAMS" in response.body) == (503, True)


async def test_a_stream_that_has_ended_makes_room() -> None:
    async with voice(streams=1) as served:
        for _ in range(3):
            async with served.stream("v1/listen") as client:
                await client.send('{"type":"CloseStream"}')
                await client.wait_closed()


def test_the_reference_begins_with_all_paths_of_streams() -> None:
    reference = (ROOT / "docs/reference/voice.md").read_text("utf-8")
    table = reference.partition("## Settings")[0]
    named = {f"`{path}`" for path in Routes(Voice()).paths if path != DEFAULT_PATH}
    assert {path for path in named if path not in table} == set()
