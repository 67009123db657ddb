"""Every event of Flux's wires, validated by the models of deepgram-sdk.

Run by ``make interop-voice``. Deepgram generates these models from its own specification.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from partway.container.models.voice.model import Voice
from partway.container.models.voice.settings import VoiceSettings
from partway.container.testing import serving
from tests.container.models.voice.sounds import silence, sounds, tone
from tests.container.models.voice.wires.failing_engines import HEARS_SECOND, SPEAKS_SECOND
from tests.interop.served_api import ended, interpreter

pytestmark = pytest.mark.timeout(180)

PROGRAM = Path(__file__).with_name("voice_clients") / "event_parser.py"
SETTINGS = VoiceSettings(hears=HEARS_SECOND, speaks=SPEAKS_SECOND, turns="stub")
LISTEN = {
    *("Connected", "Update", "StartOfTurn", "EagerEndOfTurn", "TurnResumed", "EndOfTurn"),
    *("ConfigureSuccess", "ConfigureFailure", "Warning", "Error"),
}
SPEAK = {
    *("Connected", "SpeechStarted", "SpeechMetadata", "SpeechInterrupted", "Flushed"),
    *("SessionMetadata", "ConfigureSuccess", "ConfigureFailure", "Warning", "Error"),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the client's models matter."""
    return "asyncio"


class Client:
    """Sends objects; keeps the events that it gets."""

    def __init__(self, socket: Any) -> None:
        self.events: list[dict[str, Any]] = []
        self._socket = socket

    async def say(self, kind: str, **members: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **members}))

    async def hear(self, audio: Any) -> None:
        await self._socket.send(audio.tobytes())

    async def until(self, name: str) -> None:
        async for event in self._next():
            if name in (event["type"], event.get("event")):
                return

    async def rest(self) -> None:
        async for _ in self._next():
            pass

    async def _next(self) -> AsyncIterator[dict[str, Any]]:
        async for message in self._socket:
            if isinstance(message, str):
                self.events.append(json.loads(message))
                yield self.events[-1]


async def listen(client: Client) -> None:
    await client.hear(tone(0.4))
    await client.say("ForceEndTurn")
    await client.until("Warning")
    await client.say("nonsense")
    await client.say("Configure", thresholds={"eager_eot_threshold": 0.5}, language_hints=["en"])
    await client.say("Configure", thresholds={"eot_threshold": 9})
    await client.until("ConfigureFailure")
    await client.hear(sounds(0.5, 1.2))
    await client.until("Update")
    await client.hear(silence(0.2))
    await client.until("EagerEndOfTurn")
    await client.hear(tone(0.4))
    await client.until("TurnResumed")
    await client.say("CloseStream")
    await client.rest()


async def speak(client: Client) -> None:
    await client.say("Speak", text="This one fails.")
    await client.say("Flush")
    await client.until("Flushed")
    await client.say("nonsense")
    await client.say("Interrupt")
    await client.say("Configure", speed=1.5)
    await client.say("Configure", speed=9)
    await client.say("Speak", text="A long word")
    await client.say("Interrupt", playback_offset={"type": "time_ms", "value": 0})
    await client.until("SpeechInterrupted")
    await client.say("Close")
    await client.rest()


@pytest.mark.parametrize(
    ("path", "scene", "types"), [("v2/listen", listen, LISTEN), ("v2/speak", speak, SPEAK)]
)
async def test_deepgrams_models_validate_every_event(
    path: str, scene: Callable[[Client], Awaitable[None]], types: set[str], tmp_path: Path
) -> None:
    python = interpreter("VOICE_PYTHON", "deepgram-sdk", "interop-voice")
    async with serving(Voice(SETTINGS)) as served, served.stream(path) as socket:
        client = Client(socket)
        await scene(client)
    lines = tmp_path / "events"
    lines.write_text("\n".join(map(json.dumps, client.events)), "utf-8")
    name = path.replace("v2/", "flux-")
    done = await ended(python, str(PROGRAM), name, str(lines), environment={}, directory=tmp_path)
    assert done.status == 0, done.errors
    result = json.loads(done.output.splitlines()[-1])
    assert not result["faults"], "\n".join(result["faults"])
    assert set(result["parsed"]) == types
