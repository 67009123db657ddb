"""Pipecat's bot on SageMaker, with Deepgram's services: see :mod:`talking`.

The pipeline is that of pipecat's own examples. An echo stands in for the language model, and the
transport's speaker is a clock.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import sys
from typing import Any

from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.frames.frames import (
    EndFrame,
    Frame,
    InputAudioRawFrame,
    InterruptionFrame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    LLMTextFrame,
    OutputAudioRawFrame,
    TTSStoppedFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.services.deepgram.sagemaker.stt import DeepgramSageMakerSTTService
from pipecat.services.deepgram.sagemaker.tts import DeepgramSageMakerTTSService
from pipecat.transports.base_output import BaseOutputTransport
from pipecat.transports.base_transport import TransportParams
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner
from talking import Conversation, Driver
from told import follow

RATE = 16_000


class Echo(FrameProcessor):
    """Answers the user's last words with them."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        said = frame.context.messages[-1]["content"]
        await self.push_frame(LLMFullResponseStartFrame())
        await self.push_frame(LLMTextFrame(f"I heard you. You said: {said}."))
        await self.push_frame(LLMFullResponseEndFrame())


class Speaker(BaseOutputTransport):
    """Plays audio as fast as a speaker does, into a conversation."""

    def __init__(self, talk: Bot) -> None:
        super().__init__(TransportParams(audio_out_enabled=True))
        self._talk = talk
        self._free = 0.0

    async def start(self, frame: Any) -> None:
        await super().start(frame)
        await self.set_transport_ready(frame)

    async def write_audio_frame(self, frame: OutputAudioRawFrame) -> bool:
        self._talk.add(frame.audio)
        now = asyncio.get_running_loop().time()
        self._free = max(self._free, now) + len(frame.audio) / 2 / frame.sample_rate
        await asyncio.sleep(self._free - now)
        return True

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        match frame:
            case InterruptionFrame():
                self._talk.notes.add("told")
            case LLMFullResponseStartFrame():
                self._talk.begin_answer()
        await super().process_frame(frame, direction)

    async def push_frame(
        self, frame: Frame, direction: FrameDirection = FrameDirection.DOWNSTREAM
    ) -> None:
        if isinstance(frame, TTSStoppedFrame):  # it comes here once the audio was played
            self._talk.notes.add("over")
        await super().push_frame(frame, direction)


class Bot(Conversation):
    """A running pipeline."""

    def __init__(self, place: dict[str, Any]) -> None:
        super().__init__(place, RATE)

    async def open(self) -> None:
        sagemaker = {"endpoint_name": self.place["endpoint"], "region": self.place["region"]}
        hears = DeepgramSageMakerSTTService(**sagemaker)
        speaks = DeepgramSageMakerTTSService(**sagemaker)
        timeout = SpeechTimeoutUserTurnStopStrategy()
        user, assistant = LLMContextAggregatorPair(
            LLMContext(),
            user_params=LLMUserAggregatorParams(
                user_turn_strategies=UserTurnStrategies(stop=[timeout]),
                vad_analyzer=SileroVADAnalyzer(),
            ),
        )
        connected = asyncio.Event()
        hears.add_event_handler("on_connected", lambda _: connected.set())
        assistant.add_event_handler("on_assistant_turn_stopped", self._kept)
        self._worker = PipelineWorker(
            Pipeline([hears, user, Echo(), speaks, Speaker(self), assistant]),
            params=PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE),
            cancel_on_idle_timeout=False,
        )
        self._worker.add_event_handler("on_pipeline_error", self._failed)
        self._runner = WorkerRunner(handle_sigint=False)
        await self._runner.add_workers(self._worker)
        self._running = asyncio.create_task(self._runner.run())
        await connected.wait()

    async def _kept(self, aggregator: Any, message: Any) -> None:
        if message.interrupted:
            self.notes.add("kept", message.content)

    async def _failed(self, worker: Any, frame: Any) -> None:
        self.notes.add("error", frame.error)

    async def send(self, audio: bytes) -> None:
        await self._worker.queue_frame(InputAudioRawFrame(audio, RATE, 1))

    async def close(self) -> None:
        await self._worker.queue_frame(EndFrame())
        # AWS's SDK 0.9 now and then waits for ever to close a stream whose response has ended.
        await asyncio.wait((self._running,), timeout=5)


async def main() -> None:
    logger.remove()
    logger.add(sys.stderr, level="INFO")
    await follow(Driver(Bot, f"pipecat-ai {importlib.metadata.version('pipecat-ai')}"))


asyncio.run(main())
