"""Real pipecat, told what to do line by line. Run by an interpreter that has it.

How it is told is :mod:`tests.interop.told`'s matter.
What a bot meets is told one thing at a time, by ``next``::

    {"id": 1, "do": "start", "bot": "b", "region": "us-east-1", "listens": {"endpoint_name": "d"}}
    {"id": 2, "do": "hear", "bot": "b", "audio": "AAAA..."}
    {"id": 3, "do": "next", "bot": "b"}
    {"id": 3, "result": {"what": "TranscriptionFrame", "text": "hello"}}

Imports nothing else of this project, which lives in another environment.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.metadata
from collections.abc import Iterator
from types import FrameType
from typing import Any

from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.deepgram.sagemaker.stt import DeepgramSageMakerSTTService
from pipecat.services.deepgram.sagemaker.tts import DeepgramSageMakerTTSService
from pipecat.workers.runner import WorkerRunner
from told import follow

RATE = 16000

#: Seconds after which a close that still waits for the SDK is looked at.
CLOSE = 5.0


class Notes(FrameProcessor):
    """The end of a pipeline, where what came out of the services is written down."""

    def __init__(self, met: asyncio.Queue[dict[str, Any]]) -> None:
        super().__init__()
        self._met = met

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        what = {"what": type(frame).__name__}
        match frame:
            case TranscriptionFrame() | InterimTranscriptionFrame():
                self._met.put_nowait({**what, "text": frame.text})
            case TTSAudioRawFrame():
                audio = base64.b64encode(frame.audio).decode()
                self._met.put_nowait({**what, "audio": audio, "rate": frame.sample_rate})
            case TTSStoppedFrame():
                self._met.put_nowait(what)
        await self.push_frame(frame, direction)


class Bot:
    """A pipeline of the services that are asked for, and the runner that runs it."""

    def __init__(
        self, region: str, listens: dict[str, Any], speaks: dict[str, Any], **worker: Any
    ) -> None:
        self.met: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        services: list[Any] = []
        if listens:
            model = listens.pop("model", "nova-3")
            settings = DeepgramSageMakerSTTService.Settings(model=model)
            services.append(
                DeepgramSageMakerSTTService(region=region, settings=settings, **listens)
            )
        if speaks:
            services.append(DeepgramSageMakerTTSService(region=region, **speaks))
        for service in services:
            self._note_events(service)
        self.worker = PipelineWorker(
            Pipeline([*services, Notes(self.met)]),
            params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE),
            cancel_on_idle_timeout=False,
            **worker,
        )
        self.worker.add_event_handler("on_pipeline_error", self._error)
        self.runner = WorkerRunner(handle_sigint=False)
        self.running: asyncio.Task[None] | None = None

    def _note_events(self, service: Any) -> None:
        name = type(service).__name__

        async def connected(service: Any) -> None:
            self.met.put_nowait({"what": "on_connected", "of": name})

        async def disconnected(service: Any) -> None:
            self.met.put_nowait({"what": "on_disconnected", "of": name})

        async def refused(service: Any, error: str) -> None:
            self.met.put_nowait({"what": "on_connection_error", "of": name, "text": error})

        service.add_event_handler("on_connected", connected)
        service.add_event_handler("on_disconnected", disconnected)
        service.add_event_handler("on_connection_error", refused)

    async def _error(self, worker: Any, frame: Any) -> None:
        category = getattr(frame, "category", None)
        self.met.put_nowait(
            {
                "what": "on_pipeline_error",
                "text": frame.error,
                "category": getattr(category, "value", category),
            }
        )

    async def start(self) -> None:
        started = asyncio.Event()

        async def on_started(worker: Any, frame: Any) -> None:
            started.set()

        self.worker.add_event_handler("on_pipeline_started", on_started)
        await self.runner.add_workers(self.worker)
        self.running = asyncio.create_task(self.runner.run())
        await started.wait()

    async def over(self) -> list[dict[str, Any]]:
        assert self.running is not None
        await self.running
        return [self.met.get_nowait() for _ in range(self.met.qsize())]


async def release_closes() -> None:
    """Release closes of the SDK that wait for a writer which has died.

    Pipecat cancels its reader behind ``CloseStream``. The next byte of the response then raises an
    exception in awscrt's thread, and awscrt gives the stream up. A write that comes just then kills
    the SDK's writer, and its close waits for ever until the queue of writes is empty.
    """
    waiting = [(frame.f_code.co_qualname, frame.f_locals) for frame in frames_of_tasks()]
    written = [
        variables["body_iterator"].ag_frame.f_locals["body"]
        for name, variables in waiting
        if name.endswith("._set_request_body_generator")
    ]
    for name, variables in waiting:
        if name == "AsyncBytesProvider.close":
            provider = variables["self"]
            if not any(reads(body, provider) for body in written):
                async with provider._data_condition:
                    provider._data.clear()
                    provider._data_condition.notify_all()


def frames_of_tasks() -> Iterator[FrameType]:
    """Yield the frames in which tasks wait."""
    for task in asyncio.all_tasks():
        waits: Any = task.get_coro()
        while (frame := getattr(waits, "cr_frame", None)) is not None:
            yield frame
            waits = waits.cr_await


def reads(body: Any, provider: Any) -> bool:
    return body is provider or any(each is provider for each in vars(body).values())


class Driver:
    """Bots by the names that commands give them."""

    def __init__(self) -> None:
        self.bots: dict[str, Bot] = {}

    async def version(self) -> str:
        return importlib.metadata.version("pipecat-ai")

    async def start(
        self,
        bot: str,
        region: str,
        listens: dict[str, Any] | None = None,
        speaks: dict[str, Any] | None = None,
        **worker: Any,
    ) -> None:
        """Begin a pipeline; returns when its start has gone through."""
        self.bots[bot] = Bot(region, listens or {}, speaks or {}, **worker)
        await self.bots[bot].start()

    async def hear(self, bot: str, audio: str) -> None:
        """Audio of the user's; base64."""
        frame = InputAudioRawFrame(base64.b64decode(audio), RATE, 1)
        await self.bots[bot].worker.queue_frame(frame)

    async def pause(self, bot: str) -> None:
        """The user stops speaking."""
        await self.bots[bot].worker.queue_frame(VADUserStoppedSpeakingFrame())

    async def say(self, bot: str, text: str) -> None:
        await self.bots[bot].worker.queue_frame(TTSSpeakFrame(text))

    async def next(self, bot: str) -> dict[str, Any]:
        return await self.bots[bot].met.get()

    async def end(self, bot: str) -> list[dict[str, Any]]:
        """The orderly end; when all is over, returns what was met and not asked for."""
        ending = self.bots.pop(bot)
        await ending.worker.queue_frame(EndFrame())
        over = asyncio.create_task(ending.over())
        while not over.done():
            await asyncio.wait((over,), timeout=CLOSE)
            if not over.done():
                await release_closes()
        return over.result()

    async def cancel(self, bot: str) -> list[dict[str, Any]]:
        """The other end, which waits for nothing that is under way; returns as ``end``."""
        ending = self.bots.pop(bot)
        await ending.runner.cancel("told to")
        return await ending.over()


if __name__ == "__main__":
    asyncio.run(follow(Driver()))
