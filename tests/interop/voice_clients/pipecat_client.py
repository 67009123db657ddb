"""Pipecat's services for voices, each in a pipeline: prints one JSON object of all that they met.

``pipecat_client.py ENDPOINT REGION URL KEY PCM16 PCM24``: the services on SageMaker find it by the
region, OpenAI's Realtime service takes the URL. The files have the same audio, mono at 16 and at
24 kHz.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any, Self

from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterimTranscriptionFrame,
    InterruptionFrame,
    LLMFullResponseEndFrame,
    LLMRunFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
    TTSSpeakFrame,
    TTSStoppedFrame,
    TTSTextFrame,
    VADUserStartedSpeakingFrame,
    VADUserStoppedSpeakingFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.deepgram.flux.sagemaker.stt import DeepgramFluxSageMakerSTTService
from pipecat.services.deepgram.flux.sagemaker.tts import DeepgramFluxSageMakerTTSService
from pipecat.services.deepgram.sagemaker.stt import DeepgramSageMakerSTTService
from pipecat.services.deepgram.sagemaker.tts import DeepgramSageMakerTTSService
from pipecat.services.nvidia.sagemaker.stt import NvidiaSageMakerSTTService
from pipecat.services.nvidia.sagemaker.tts import NvidiaSageMakerTTSService
from pipecat.services.openai.realtime.events import (
    AudioConfiguration,
    AudioInput,
    InputAudioTranscription,
    SessionProperties,
    TurnDetection,
)
from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService
from pipecat.workers.runner import WorkerRunner

ENDPOINT, REGION, URL, KEY, PCM16, PCM24 = sys.argv[1:]
AUDIO = {16_000: Path(PCM16).read_bytes(), 24_000: Path(PCM24).read_bytes()}
TEXT = "Hello from a gateway of ours."
PLACE = {"endpoint_name": ENDPOINT, "region": REGION}


class Notes(FrameProcessor):
    """An end of a pipeline.

    Args:
        met: takes the frames of interest, with what they have.
    """

    def __init__(self, met: list[list[Any]] | None = None) -> None:
        super().__init__()
        self.met: list[list[Any]] = [] if met is None else met
        self.audio = 0
        self._new = asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        match frame:
            case TTSAudioRawFrame():
                self.audio += len(frame.audio)
            case TranscriptionFrame() | InterimTranscriptionFrame() | TTSTextFrame():
                self.met.append([type(frame).__name__, frame.text])
            case TTSStoppedFrame():
                self.met.append([type(frame).__name__, self.audio])
            case InterruptionFrame() | LLMFullResponseEndFrame():
                self.met.append([type(frame).__name__, None])
        self._new.set()
        await self.push_frame(frame, direction)

    async def until(self, kind: str, count: int = 1) -> None:
        """Wait until a kind of frame was met so many times."""
        async with asyncio.timeout(20):
            while sum(name == kind for name, _ in self.met) < count:
                self._new.clear()
                await self._new.wait()


class Running:
    """A pipeline with one service, and what stands around it."""

    def __init__(self, service: Any, before: Any = (), after: Any = (), rate: int = 16_000) -> None:
        self._rate = rate
        self.notes = Notes()
        self.errors: list[str] = []
        self.worker = PipelineWorker(
            Pipeline([*before, Notes(self.notes.met), service, self.notes, *after]),
            params=PipelineParams(audio_in_sample_rate=rate, audio_out_sample_rate=rate),
            cancel_on_idle_timeout=False,
        )
        self.worker.add_event_handler("on_pipeline_error", self._error)
        self._runner = WorkerRunner(handle_sigint=False)

    async def _error(self, worker: Any, frame: Any) -> None:
        self.errors.append(frame.error)

    async def __aenter__(self) -> Self:
        started = asyncio.Event()

        async def on_started(worker: Any, frame: Any) -> None:
            started.set()

        self.worker.add_event_handler("on_pipeline_started", on_started)
        await self._runner.add_workers(self.worker)
        self._run = asyncio.create_task(self._runner.run())
        await started.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.worker.queue_frame(EndFrame())
        # AWS's SDK 0.9 now and then waits for ever to close a stream whose response has ended.
        await asyncio.wait((self._run,), timeout=5)

    async def hear(self) -> None:
        audio, chunk = AUDIO[self._rate], self._rate // 50 * 2  # bytes in 20 ms
        for start in range(0, len(audio), chunk):
            frame = InputAudioRawFrame(audio[start : start + chunk], self._rate, 1)
            await self.worker.queue_frame(frame)

    def told(self) -> dict[str, Any]:
        return {"met": self.notes.met, "audio": self.notes.audio, "errors": self.errors}


async def listens(service: Any) -> dict[str, Any]:
    async with Running(service) as running:
        await running.worker.queue_frame(VADUserStartedSpeakingFrame())
        await running.hear()
        await running.worker.queue_frame(VADUserStoppedSpeakingFrame())
        await running.notes.until("TranscriptionFrame")
    return running.told()


async def speaks(service: Any) -> dict[str, Any]:
    async with Running(service) as running:
        await running.worker.queue_frame(TTSSpeakFrame(TEXT))
        await running.notes.until("TTSStoppedFrame")
    return running.told()


async def converses() -> dict[str, Any]:
    """Have the model begin, and interrupt it by speaking."""
    input_audio = AudioInput(
        transcription=InputAudioTranscription(model="whisper-1"),
        turn_detection=TurnDetection(silence_duration_ms=300),
    )
    properties = SessionProperties(audio=AudioConfiguration(input=input_audio))
    service = OpenAIRealtimeLLMService(
        api_key=KEY,
        base_url=URL,
        settings=OpenAIRealtimeLLMService.Settings(
            model=ENDPOINT, system_instruction="Answer briefly.", session_properties=properties
        ),
    )
    context = LLMContext([{"role": "user", "content": "Say hello."}])
    user, assistant = LLMContextAggregatorPair(context)
    async with Running(service, before=[user], after=[assistant], rate=24_000) as running:
        await running.worker.queue_frame(LLMRunFrame())
        await running.notes.until("TTSTextFrame")
        await running.hear()
        await running.notes.until("TranscriptionFrame")
        await running.notes.until("LLMFullResponseEndFrame", 2)
    return running.told() | {"context": context.messages}


async def main() -> None:
    model = DeepgramSageMakerSTTService.Settings(model="nova-3")
    told = {
        "deepgram_stt": await listens(DeepgramSageMakerSTTService(settings=model, **PLACE)),
        "deepgram_tts": await speaks(DeepgramSageMakerTTSService(**PLACE)),
        "flux_stt": await listens(DeepgramFluxSageMakerSTTService(**PLACE)),
        "flux_tts": await speaks(DeepgramFluxSageMakerTTSService(**PLACE)),
        "nvidia_stt": await listens(NvidiaSageMakerSTTService(**PLACE)),
        "nvidia_tts": await speaks(NvidiaSageMakerTTSService(**PLACE)),
        "realtime": await converses(),
    }
    print(json.dumps(told, default=str), flush=True)
    os._exit(0)  # a pipeline that waits for ever cannot be cancelled either


asyncio.run(main())
