"""The settings of a Realtime session's listening: turns and transcripts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from partway.container.models.voice.interfaces import HearingOptions
from partway.container.models.voice.limits import MAX_INSTRUCTIONS, MAX_NAME
from partway.container.models.voice.wires.realtime_faults import Members

_TYPES_OF_DETECTION: Final = ("server_vad", "semantic_vad")
_EAGERNESS: Final = ("low", "medium", "high", "auto")
_KNOWN_OF_TRANSCRIPTION: Final = frozenset({"model", "language", "prompt"})
_KNOWN_OF_DETECTION: Final = frozenset(
    {
        *("type", "threshold", "prefix_padding_ms", "silence_duration_ms", "eagerness"),
        *("create_response", "interrupt_response", "interrupt_min_words"),
    }
)
_KNOWN: Final = frozenset({"format", "transcription", "turn_detection"})


@dataclass(frozen=True, slots=True)
class TurnSettings:
    """How the server finds a turn's end.

    Attributes:
        kind: ``server_vad`` waits for silence; ``semantic_vad`` asks the turn model too.
        silence_ms: of silence after which a turn ends.
        create_response: whether a turn's end starts a response.
        interrupt_response: whether speech ends the response in progress.
        interrupt_min_words: words that the speech must have before it ends a response; 0 ends it as
            soon as speech begins.
    """

    kind: str = "server_vad"
    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_ms: int = 400
    eagerness: str = "auto"
    create_response: bool = True
    interrupt_response: bool = True
    interrupt_min_words: int = 0

    def members(self) -> dict[str, Any]:
        """Return the form that events show."""
        shown: dict[str, Any] = {"type": self.kind}
        if self.kind == "server_vad":
            shown |= {
                "threshold": self.threshold,
                "prefix_padding_ms": self.prefix_padding_ms,
                "silence_duration_ms": self.silence_ms,
            }
        else:
            shown["eagerness"] = self.eagerness
        return shown | {
            "create_response": self.create_response,
            "interrupt_response": self.interrupt_response,
            "interrupt_min_words": self.interrupt_min_words,
        }


@dataclass(frozen=True, slots=True)
class Transcribing:
    """Wishes for the transcripts of the user's speech; empty ones are left to the engine."""

    model: str = ""
    language: str = ""
    prompt: str = ""

    def members(self) -> dict[str, Any]:
        """Return the form that events show."""
        # pipecat takes these three and no other.
        return {
            "model": self.model,
            "language": self.language or None,
            "prompt": self.prompt or None,
        }


def transcribing_of(heard: Members, usual: Transcribing | None) -> Transcribing | None:
    """Return the wishes for transcripts after an update; null ends the reports.

    Raises:
        RealtimeFault: a member is no string.
    """
    if not heard.has("transcription"):
        return usual
    if heard.is_null("transcription"):
        return None
    given = heard.inner("transcription")
    before = usual or Transcribing()
    return Transcribing(
        model=given.text("model", before.model, most=MAX_NAME),
        language=given.text("language", before.language)[:35],  # as long as a tag of BCP 47
        prompt=given.text("prompt", before.prompt)[:MAX_INSTRUCTIONS],
    )


def hearing_options(transcribing: Transcribing | None, language: str) -> HearingOptions:
    """Return the wishes for the engine that hears.

    Args:
        transcribing: a session's; None if no transcripts are reported.
        language: of a session that names none.
    """
    wishes = transcribing or Transcribing()
    return HearingOptions(language=wishes.language or language, prompt=wishes.prompt)


def turns_of(
    heard: Members, current: TurnSettings | None, usual: TurnSettings
) -> TurnSettings | None:
    """Return the settings of turns after an update; null ends turn detection.

    Args:
        heard: the members of ``audio.input``.
        current: the settings so far.
        usual: those of a session that turns detection on.

    Raises:
        RealtimeFault: a member has another value than it may have.
    """
    if not heard.has("turn_detection"):
        return current
    if heard.is_null("turn_detection"):
        return None
    given = heard.inner("turn_detection")
    before = current or usual
    kind = given.one_of("type", _TYPES_OF_DETECTION, before.kind)
    return TurnSettings(
        kind=kind,
        threshold=given.number("threshold", 0.0, 1.0, before.threshold),
        prefix_padding_ms=given.whole("prefix_padding_ms", 0, 5_000, before.prefix_padding_ms),
        silence_ms=given.whole("silence_duration_ms", 20, 10_000, before.silence_ms),
        eagerness=given.one_of("eagerness", _EAGERNESS, before.eagerness),
        create_response=given.flag("create_response", default=before.create_response),
        interrupt_response=given.flag("interrupt_response", default=before.interrupt_response),
        interrupt_min_words=given.whole("interrupt_min_words", 0, 100, before.interrupt_min_words),
    )


def without_effect(heard: Members) -> frozenset[str]:
    """Return the paths of members of ``audio.input`` that have no effect."""
    return (
        heard.ignored(_KNOWN)
        | heard.inner("transcription").ignored(_KNOWN_OF_TRANSCRIPTION)
        | heard.inner("turn_detection").ignored(_KNOWN_OF_DETECTION)
    )
