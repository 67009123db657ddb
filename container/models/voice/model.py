"""The model class of ``voice``: its paths, and the engines behind them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from partway.container.errors import ModelError
from partway.container.model import Model, Opening, Reply, Request, request_route, route
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.metrics import VoiceMetrics
from partway.container.models.voice.open_streams import OpenStreams
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.speech_formats import read_speech_query
from partway.container.models.voice.speech_requests import answer_speech
from partway.container.models.voice.transcription_requests import Transcriptions
from partway.container.models.voice.wires.default_path import DefaultPath
from partway.container.models.voice.wires.flux_listen import FluxListenStream
from partway.container.models.voice.wires.flux_listen_query import FluxListenQuery
from partway.container.models.voice.wires.flux_speak import FluxSpeakStream, read_flux_speech_query
from partway.container.models.voice.wires.listen import ListenStream
from partway.container.models.voice.wires.listen_query import ListenQuery
from partway.container.models.voice.wires.realtime import RealtimeStream, realtime_needs
from partway.container.models.voice.wires.speak import SpeakStream
from partway.container.models.voice.wires.speak_request import answer_speak
from partway.container.models.voice.wires.speech_stream import PATH as SPEECH_STREAM
from partway.container.models.voice.wires.speech_stream import SpeechStream
from partway.container.serving.body import HeldBodies
from partway.container.stream import Stream

#: The paths of streams, and the settings of the engines that each needs.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    "v1/listen": ("hears",),
    "v1/speak": ("speaks",),
    SPEECH_STREAM: ("speaks",),
    "v2/listen": ("hears",),
    "v2/speak": ("speaks",),
}


class Voice(Model):
    """Speech in, speech out.

    Args:
        settings: the model's settings; by default from the environment.

    Attributes:
        engines: the engines, from :meth:`load` on.
    """

    settings_type = VoiceSettings
    settings: VoiceSettings
    engines: Engines

    def __init__(self, settings: VoiceSettings | None = None) -> None:
        if settings is not None:
            self.settings = settings

    def load(self, model_dir: Path) -> None:
        """Load the engines that the settings name.

        Raises:
            SettingsRefused: a setting names no engine, or one that lacks a package or a file.
        """
        self.engines = Engines.load(self.settings, model_dir)
        self.metrics.register(VoiceMetrics(self.engines))
        self._bodies = HeldBodies()
        self._transcriptions = Transcriptions(self.engines, self._bodies)
        self._open = OpenStreams(self.settings.streams)

    def unload(self) -> None:
        self.engines.close()

    def healthy(self) -> bool:
        if (reason := self.engines.trouble()) is not None:
            raise ModelError(reason)
        return True

    async def admit(self, opening: Opening) -> None:
        """Refuse a path without its engine, a query with faults, and one stream too many."""
        needs = _NEEDS.get(opening.path, ())
        if opening.path == "v1/realtime":
            needs = realtime_needs(opening.query, self.engines)
        self.engines.need(opening.path, *needs)
        if opening.path == "v1/speak":
            read_speech_query(opening.query)
        if opening.path == "v1/listen":
            ListenQuery.read(opening.query, self.engines.settings)
        if opening.path == "v2/listen":
            FluxListenQuery.read(opening.query, self.engines.settings)
        if opening.path == "v2/speak":
            read_flux_speech_query(opening.query)
        self._open.check()

    # --- Streams ---------------------------------------------------------------------------------

    async def stream(self, stream: Stream) -> None:
        """Serve the dialect that the first message chooses."""
        with self._open.one():
            await DefaultPath(stream, self.engines).run()

    @route("v1/realtime")
    async def realtime(self, stream: Stream) -> None:
        """Hold a conversation by OpenAI's Realtime API, or transcribe."""
        with self._open.one():
            await RealtimeStream(stream, self.engines).run()

    @route("v1/speak")
    async def speak(self, stream: Stream) -> None:
        """Turn text into speech."""
        with self._open.one():
            await SpeakStream(stream, self.engines).run()

    @route(SPEECH_STREAM)
    async def speech_stream(self, stream: Stream) -> None:
        """Turn text into speech, in vLLM-Omni's form."""
        with self._open.one():
            await SpeechStream(stream, self.engines).run(stream.messages())

    @route("v1/listen")
    async def listen(self, stream: Stream) -> None:
        """Turn speech into text."""
        with self._open.one():
            await ListenStream(stream, self.engines).run()

    @route("v2/listen")
    async def flux_listen(self, stream: Stream) -> None:
        """Turn speech into turns."""
        with self._open.one():
            await FluxListenStream(stream, self.engines).run()

    @route("v2/speak")
    async def flux_speak(self, stream: Stream) -> None:
        """Turn text into turns of speech."""
        with self._open.one():
            await FluxSpeakStream(stream, self.engines).run()

    # --- Requests --------------------------------------------------------------------------------

    @request_route("v1/audio/transcriptions")
    async def audio_transcriptions(self, request: Request) -> Reply:
        """Turn the speech of a file into text."""
        return await self._transcriptions.answer(request)

    @request_route("v1/audio/speech")
    async def audio_speech(self, request: Request) -> Reply:
        """Turn the text of a request into speech."""
        return await answer_speech(request, self.engines, self._bodies)

    @request_route("v1/speak")
    async def speak_request(self, request: Request) -> Reply:
        """Turn the text of a request into speech, in Deepgram's form."""
        return await answer_speak(request, self.engines, self._bodies)
