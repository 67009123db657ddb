"""partway.container.models.voice.wires.realtime_item_hearing: items that nobody waits for."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace

import pytest

from partway.container.models.voice.interfaces import HearingOptions, Samples, Transcript
from partway.container.models.voice.model import Voice
from partway.container.testing import serving
from tests.container.models.voice.sounds import tone
from tests.container.models.voice.wires.realtime_client import RATE, STUBS, RealtimeClient

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


class SlowEar:
    """Hears nothing to its end."""

    is_idle = False

    async def transcribe(self, audio: Samples, options: HearingOptions) -> Transcript:
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_item_that_no_response_needs_does_not_keep_its_session_open() -> None:
    audio = base64.b64encode(tone(0.4, RATE).tobytes()).decode()
    content = [{"type": "input_audio", "audio": audio}]
    voice = Voice(STUBS)
    async with serving(voice) as served:
        voice.engines = replace(voice.engines, hearing=SlowEar())  # type: ignore[arg-type]
        async with served.stream("v1/realtime") as socket:
            client = RealtimeClient(socket)
            item = {"type": "message", "role": "user", "content": content}
            await client.send("conversation.item.create", item=item)
            await client.until("conversation.item.done")
            await socket.close(1000)
            assert socket.close_code == 1000  # the server has answered before the client gave up
