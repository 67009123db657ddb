"""A peer: an assistant in one process of pipecat, with the engines of the others.

``python -m benchmarks.voice_pipecat WHISPER VOICE BASE_URL`` prints the address that it listens on.
Its Python has pipecat 1.14 (BSD-2-Clause). Sound travels as bare samples; the text message
``response.done`` says that an answer was spoken.

Its turns end after 400 ms of silence, as those of the model ``voice``: Whisper begins after 200 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, WebSocket
from faster_whisper import WhisperModel
from loguru import logger
from pipecat.audio.vad.silero import SileroVADAnalyzer
from pipecat.audio.vad.vad_analyzer import VADParams
from pipecat.frames.frames import (
    BotStoppedSpeakingFrame,
    Frame,
    InputAudioRawFrame,
    OutputAudioRawFrame,
    OutputTransportMessageUrgentFrame,
)
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineParams, PipelineWorker
from pipecat.processors.aggregators.llm_context import LLMContext
from pipecat.processors.aggregators.llm_response_universal import (
    LLMContextAggregatorPair,
    LLMUserAggregatorParams,
)
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.serializers.base_serializer import FrameSerializer
from pipecat.services.openai.llm import OpenAILLMService
from pipecat.services.piper import tts
from pipecat.services.whisper import stt
from pipecat.transcriptions.language import Language
from pipecat.transports.websocket.fastapi import (
    FastAPIWebsocketParams,
    FastAPIWebsocketTransport,
)
from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
from pipecat.turns.user_turn_strategies import UserTurnStrategies
from pipecat.workers.runner import WorkerRunner

from benchmarks.voice_task import INSTRUCTIONS, MOST_TOKENS, RAW

RATE = 16_000
#: Seconds of silence: until Whisper begins, and from there to the end of the turn.
STOP, FURTHER = 0.2, 0.2


class Samples(FrameSerializer):
    """Bare samples in both directions."""

    async def serialize(self, frame: Frame) -> str | bytes | None:
        if isinstance(frame, OutputAudioRawFrame):
            return frame.audio
        if isinstance(frame, OutputTransportMessageUrgentFrame):
            return str(frame.message)
        return None

    async def deserialize(self, data: str | bytes) -> Frame | None:
        assert isinstance(data, bytes)
        return InputAudioRawFrame(audio=data, sample_rate=RATE, num_channels=1)


class SaysDone(FrameProcessor):
    """Tells the client that an answer was spoken."""

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, BotStoppedSpeakingFrame) and direction == FrameDirection.UPSTREAM:
            await self.push_frame(OutputTransportMessageUrgentFrame(message="response.done"))
        await self.push_frame(frame, direction)


class Greedy:
    """Whisper with the options of the model ``voice``; pipecat's own search is wider and slower."""

    def __init__(self, name: str, **options: Any) -> None:
        self._model = WhisperModel(name, compute_type="auto", device=options["device"])
        self.supported_languages = self._model.supported_languages

    def transcribe(self, audio: Any, **options: Any) -> Any:
        return self._model.transcribe(
            audio,
            **options,
            beam_size=1,
            condition_on_previous_text=False,
            without_timestamps=True,
        )


def share_models() -> None:
    """Let all pipelines have the same models, where each would load its own."""
    stt.WhisperModel = functools.cache(Greedy)  # type: ignore[misc, assignment]
    tts.PiperVoice.load = functools.cache(tts.PiperVoice.load)  # type: ignore[method-assign]


def pipeline(args: argparse.Namespace, client: WebSocket | None) -> list[FrameProcessor]:
    """Make the processors of one client; without a client, to load the models."""
    hears = stt.WhisperSTTService(
        device="cpu",
        ttfs_p99_latency=STOP,  # it waits for no further text
        settings=stt.WhisperSTTService.Settings(model=args.whisper, language=Language.EN),
    )
    speaks = tts.PiperTTSService(
        download_dir=args.voice.parent,
        settings=tts.PiperTTSService.Settings(voice=args.voice.stem),
    )
    if client is None:
        return []
    answers = OpenAILLMService(
        api_key="none",
        base_url=args.base_url,
        settings=OpenAILLMService.Settings(
            model="any", max_tokens=MOST_TOKENS, system_instruction=INSTRUCTIONS
        ),
    )
    transport = FastAPIWebsocketTransport(
        client,
        FastAPIWebsocketParams(audio_in_enabled=True, audio_out_enabled=True, serializer=Samples()),
    )
    both = LLMContextAggregatorPair(
        LLMContext(),
        user_params=LLMUserAggregatorParams(
            vad_analyzer=SileroVADAnalyzer(params=VADParams(stop_secs=STOP)),
            user_turn_strategies=UserTurnStrategies(
                stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=FURTHER)]
            ),
        ),
    )
    return [
        transport.input(),
        hears,
        both.user(),
        answers,
        speaks,
        SaysDone(),
        transport.output(),
        both.assistant(),
    ]


async def serve(args: argparse.Namespace) -> None:
    share_models()
    pipeline(args, None)
    app = FastAPI()

    @app.websocket("/")
    async def converse(client: WebSocket) -> None:
        await client.accept(subprotocol=RAW)
        parameters = PipelineParams(audio_in_sample_rate=RATE, audio_out_sample_rate=RATE)
        runner = WorkerRunner(handle_sigint=False)
        await runner.add_workers(
            PipelineWorker(Pipeline(pipeline(args, client)), params=parameters)
        )
        await runner.run()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        print(f"listening on http://{host}:{port}", flush=True)
        await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve([listener])


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.voice_pipecat", description=__doc__)
    parser.add_argument("whisper", help="a directory in CTranslate2's format")
    parser.add_argument("voice", type=Path, help="Piper's voice, an .onnx file")
    parser.add_argument("base_url", help="of a server of OpenAI's API")
    logger.remove()
    logger.add(sys.stderr, level="WARNING")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
