"""A thousand Realtime sessions that are cut at random moments; run by ``make test-voice``."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import replace

import psutil
import pytest

from partway.container.models.voice.model import Voice
from partway.container.testing import serving
from tests.container.models.voice.wires.realtime_client import (
    STUBS,
    Answering,
    RealtimeClient,
    cut_sessions,
)
from tests.wire.peers import eventually

CUTS = 1_000
LONG = "This is a long answer that goes on and on, and has many more words than anybody hears."

pytestmark = pytest.mark.usefixtures("anyio_backend", "no_leaks")


@pytest.mark.timeout(600)
async def test_a_thousand_cuts_leave_nothing_behind_and_disturb_nobody() -> None:
    answers = Answering(LONG)
    voice = Voice(STUBS)
    async with serving(voice) as served:
        voice.engines = replace(voice.engines, answers=answers)
        async with served.stream("v1/realtime") as socket:
            other = RealtimeClient(socket)
            await other.configure(output_modalities=["text"])
            await cut_sessions(served, random.Random(1), 20)
            tasks, threads = len(asyncio.all_tasks()), threading.active_count()
            files = psutil.Process().num_fds()
            await cut_sessions(served, random.Random(2), CUTS)
            await other.tell("hello")
            done = (await other.until("response.done"))[-1]["response"]
            await eventually(lambda: answers.closed == len(answers.asked))
            await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
            await eventually(lambda: psutil.Process().num_fds() <= files)
            assert threading.active_count() <= threads
    assert done["status"] == "completed"
