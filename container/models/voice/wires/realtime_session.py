"""The settings of a Realtime session, as clients change them and as events show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, cast

from partway.container.models.openai_events import json_of
from partway.container.models.voice.audio_formats import AudioFormat
from partway.container.models.voice.conversation import new_id
from partway.container.models.voice.engine_set import Engines
from partway.container.models.voice.limits import (
    MAX_INSTRUCTIONS,
    MAX_NAME,
    MAX_TOOLS,
    MAX_TOOLS_SIZE,
)
from partway.container.models.voice.wires.realtime_faults import Members, RealtimeFault
from partway.container.models.voice.wires.realtime_listening import (
    Transcribing,
    TurnSettings,
    transcribing_of,
    turns_of,
    without_effect,
)

Modality = Literal["audio", "text"]

#: The formats of audio by their names in a session, with the names of the older flat form.
_ENCODINGS: Final = {"audio/pcm": "linear16", "audio/pcmu": "mulaw", "audio/pcma": "alaw"}
_TYPES: Final = {encoding: name for name, encoding in _ENCODINGS.items()}
_OLDER_FORMATS: Final = {
    "pcm16": "audio/pcm",
    "g711_ulaw": "audio/pcmu",
    "g711_alaw": "audio/pcma",
}
_TELEPHONE_RATE: Final = 8_000
_USUAL_RATE: Final = 24_000
_USUAL_FORMAT: Final = AudioFormat("linear16", _USUAL_RATE)
_USUAL_TURNS: Final = TurnSettings()
_RATES: Final = (8_000, 48_000)

_TYPES_OF_SESSION: Final = ("realtime", "transcription")
_CHOICES: Final = ("auto", "none", "required")
_MOST_TOKENS: Final = 1_000_000

#: Members of the older flat form, with the place of each in the form of today.
_OLDER: Final[Mapping[str, tuple[str, ...]]] = {
    "modalities": ("output_modalities",),
    "max_response_output_tokens": ("max_output_tokens",),
    "voice": ("audio", "output", "voice"),
    "speed": ("audio", "output", "speed"),
    "input_audio_format": ("audio", "input", "format"),
    "output_audio_format": ("audio", "output", "format"),
    "input_audio_transcription": ("audio", "input", "transcription"),
    "input_audio_noise_reduction": ("audio", "input", "noise_reduction"),
    "turn_detection": ("audio", "input", "turn_detection"),
}

_KNOWN: Final = frozenset(
    {
        *("type", "object", "id", "model", "output_modalities", "instructions", "audio", "tools"),
        *("tool_choice", "max_output_tokens", "temperature"),
    }
)
_KNOWN_OF_OUTPUT: Final = frozenset({"format", "voice", "speed"})


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """The settings of one session.

    Attributes:
        id: the session's, ``sess_…``.
        kind: ``realtime``, or ``transcription`` for a session without responses.
        model: the client's name for the model; it chooses nothing.
        modality: of responses; audio comes with its transcript.
        turn_detection: None if the client ends the turns.
        transcribing: None if no transcripts are reported.
        tools: functions, in the form of the session's events.
        tool_choice: one of ``auto``, ``none`` and ``required``, or an object that names a function.
        max_output_tokens: of a response; None for no limit.
    """

    id: str
    kind: str = "realtime"
    model: str = ""
    instructions: str = ""
    modality: Modality = "audio"
    input_format: AudioFormat = _USUAL_FORMAT
    output_format: AudioFormat = _USUAL_FORMAT
    turn_detection: TurnSettings | None = _USUAL_TURNS
    usual_detection: TurnSettings = _USUAL_TURNS
    transcribing: Transcribing | None = None
    voice: str = ""
    speed: float = 1.0
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str | Mapping[str, Any] = "auto"
    max_output_tokens: int | None = None
    temperature: float | None = None
    ignored: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def answers(self) -> bool:
        """Whether the session has responses."""
        return self.kind == "realtime"

    @property
    def interrupting_words(self) -> int | None:
        """Words of the user that end a response; 0 if speech alone does, None if nothing does."""
        detection = self.turn_detection
        if detection is None or not detection.interrupt_response:
            return None
        return detection.interrupt_min_words

    @property
    def listening(self) -> tuple[object, ...]:
        """The part that a listener is made for."""
        return self.input_format, self.turn_detection, self.transcribing

    def members(self) -> dict[str, Any]:
        """Return the form that ``session.created`` and ``session.updated`` show."""
        detection, transcribing = self.turn_detection, self.transcribing
        heard = {
            "format": shown_format(self.input_format),
            "transcription": None if transcribing is None else transcribing.members(),
            "noise_reduction": None,
            "turn_detection": None if detection is None else detection.members(),
        }
        if self.kind == "transcription":
            return {
                "type": self.kind,
                "object": "realtime.transcription_session",
                "id": self.id,
                "audio": {"input": heard},
                "include": None,
            }
        return {
            "type": self.kind,
            "object": "realtime.session",
            "id": self.id,
            "model": self.model,
            "output_modalities": [self.modality],
            "instructions": self.instructions,
            "audio": {"input": heard, "output": self.shown_output()},
            "tools": list(self.tools),
            "tool_choice": self.tool_choice,
            "max_output_tokens": self.max_output_tokens or "inf",
            "tracing": None,
            "truncation": "auto",
        }

    def shown_output(self) -> dict[str, Any]:
        """Return the form in which events show the settings of responses' audio."""
        return {
            "format": shown_format(self.output_format),
            "voice": self.voice,
            "speed": self.speed,
        }

    def updated(self, given: Members) -> SessionSettings:
        """Return the settings after a ``session.update``; absent members stay as they are.

        Args:
            given: the members of ``session``, in the form of today or in the older flat one.

        Raises:
            RealtimeFault: a member has another value than it may have; nothing is changed.
        """
        given = _modern(given)
        kind = given.one_of("type", _TYPES_OF_SESSION, self.kind)
        audio = given.inner("audio")
        heard, spoken = audio.inner("input"), audio.inner("output")
        found = replace(
            self.responding(given),
            kind=kind,
            model=given.text("model", self.model, most=MAX_NAME),
            input_format=format_of(heard, self.input_format),
            transcribing=transcribing_of(heard, self.transcribing),
            turn_detection=turns_of(heard, self.turn_detection, self.usual_detection),
        )
        if kind == "transcription" and found.transcribing is None:
            found = replace(found, transcribing=Transcribing(model=self.model))
        ignored = given.ignored(_KNOWN) | without_effect(heard) | spoken.ignored(_KNOWN_OF_OUTPUT)
        return replace(found, ignored=ignored)

    def responding(self, given: Members) -> SessionSettings:
        """Return the settings with the members that a response may set for itself.

        Args:
            given: the members, in either form.

        Raises:
            RealtimeFault: a member has another value than it may have.
        """
        given = _modern(given)
        spoken = given.inner("audio").inner("output")
        instructions = "" if given.is_null("instructions") else self.instructions
        instructions = given.text("instructions", instructions, most=MAX_INSTRUCTIONS)
        return replace(
            self,
            instructions=instructions,
            modality=_modality(given, self.modality),
            output_format=format_of(spoken, self.output_format),
            voice=spoken.name_or_id("voice", self.voice),
            speed=spoken.number("speed", 0.25, 4.0, self.speed),
            tools=_tools(given, self.tools),
            tool_choice=_tool_choice(given, self.tool_choice),
            max_output_tokens=_most_tokens(given, self.max_output_tokens),
            temperature=_temperature(given, self.temperature),
        )


def first_settings(engines: Engines, model: str, *, is_transcription: bool) -> SessionSettings:
    """Return the settings of a session before its client has changed any."""
    usual = engines.settings
    detection = TurnSettings(
        silence_ms=usual.endpointing_ms,
        interrupt_response=usual.interrupts,
        interrupt_min_words=usual.min_words,
    )
    return SessionSettings(
        id=new_id("sess"),
        kind="transcription" if is_transcription else "realtime",
        model=model,
        instructions=usual.system,
        modality="text" if engines.speaking is None else "audio",
        turn_detection=detection,
        usual_detection=detection,
        transcribing=Transcribing(model=model) if is_transcription else None,
    )


def shown_format(audio: AudioFormat) -> dict[str, Any]:
    """Return an audio format as events show it."""
    name = _TYPES[audio.encoding]
    return {"type": name, "rate": audio.rate} if name == "audio/pcm" else {"type": name}


def format_of(given: Members, usual: AudioFormat) -> AudioFormat:
    """Return the audio format of a member ``format``: an object, or an older name.

    Raises:
        RealtimeFault: the format is unknown, or its rate out of range.
    """
    if isinstance(given.value("format"), str):
        older = given.one_of("format", (*_OLDER_FORMATS, *_ENCODINGS), "pcm16")
        name, rate = _OLDER_FORMATS.get(older, older), _USUAL_RATE
    else:
        form = given.inner("format")
        if not given.value("format"):
            return usual
        name = form.one_of("type", tuple(_ENCODINGS), "audio/pcm")
        rate = form.whole("rate", *_RATES, _USUAL_RATE)
    rate = rate if name == "audio/pcm" else _TELEPHONE_RATE
    return AudioFormat(cast("Any", _ENCODINGS[name]), rate, 1)


def _modern(given: Members) -> Members:
    """Move members of the older flat form to their places; those of today's form win."""
    moved: dict[str, Any] = {}
    for older, place in _OLDER.items():
        if given.has(older):
            inner = moved
            for name in place[:-1]:
                inner = inner.setdefault(name, {})
            inner[place[-1]] = given.value(older)
    if not moved:
        return given
    return given.over(moved, without=frozenset(_OLDER))


def _modality(given: Members, usual: Modality) -> Modality:
    value = given.value("output_modalities")
    if value is None:
        return usual
    if value not in (["audio"], ["text"], ["audio", "text"], ["text", "audio"]):
        raise given.fault("output_modalities", '["audio"] or ["text"]')
    return "audio" if "audio" in value else "text"


def _tools(given: Members, usual: tuple[Mapping[str, Any], ...]) -> tuple[Mapping[str, Any], ...]:
    if not given.has("tools"):
        return usual
    tools: list[Mapping[str, Any]] = []
    for each in given.objects("tools", MAX_TOOLS):
        each.one_of("type", ("function",), "function")
        parameters = each.value("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise each.fault("parameters", "an object, a JSON Schema")
        tools.append(
            {
                "type": "function",
                "name": each.needed("name", most=MAX_NAME),
                "description": each.text("description"),
                "parameters": parameters or {"type": "object", "properties": {}},
            }
        )
    if (size := len(json_of(tools))) > MAX_TOOLS_SIZE:
        raise RealtimeFault(
            f"{given.path_of('tools')} has {size} bytes of JSON; it must have at most "
            f"{MAX_TOOLS_SIZE}",
            param=given.path_of("tools"),
        )
    return tuple(tools)


def _tool_choice(given: Members, usual: str | Mapping[str, Any]) -> str | Mapping[str, Any]:
    value = given.value("tool_choice")
    if value is None:
        return usual
    if isinstance(value, dict):
        choice = given.inner("tool_choice")
        named = choice.inner("function") if choice.has("function") else choice
        return {"type": "function", "name": named.needed("name", most=MAX_NAME)}
    return given.one_of("tool_choice", _CHOICES, "auto")


def _most_tokens(given: Members, usual: int | None) -> int | None:
    if given.value("max_output_tokens") == "inf":
        return None
    if given.value("max_output_tokens") is None:
        return usual
    return given.whole("max_output_tokens", 1, _MOST_TOKENS, 1)


def _temperature(given: Members, usual: float | None) -> float | None:
    if given.value("temperature") is None:
        return usual
    return given.number("temperature", 0.0, 2.0, 0.0)
