"""The query of ``v1/listen``, as Deepgram's clients write it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, cast

from multidict import MultiMapping

from partway.container.errors import ModelError
from partway.container.models.voice.audio_formats import AudioFormat, Encoding
from partway.container.models.voice.interfaces import HearingOptions
from partway.container.models.voice.limits import MAX_KEYTERM_CHARACTERS, MAX_KEYTERMS
from partway.container.models.voice.listener import ListenerOptions
from partway.container.models.voice.settings import VoiceSettings

#: Parameters that are obeyed, or that ask for what is done anyway.
_KNOWN: Final = {
    *("channels", "detect_language", "encoding", "endpointing", "interim_results", "keyterm"),
    *("keyterms", "keywords", "language", "mip_opt_out", "model", "no_delay", "punctuate"),
    *("sample_rate", "smart_format", "tag", "utterance_end_ms", "vad_events", "version"),
}
_SWITCH: Final = {"true": True, "false": False}
#: Samples per second of an encoding, if the client names none.
_USUAL_RATE: Final = {"linear16": 16_000, "mulaw": 8_000, "alaw": 8_000}
#: Most milliseconds of silence that a client may name.
_MOST_SILENCE: Final = 60_000
#: The language of clients that want any language to be recognised.
_ANY_LANGUAGE: Final = "multi"


@dataclass(frozen=True, slots=True)
class ListenQuery:
    """The wishes of a client.

    Attributes:
        options: the listener's part of them.
        ends_speech: whether an utterance that ends by silence is reported as the end of speech.
        tells_speech: whether the begin of speech is reported.
        ignored: the names of parameters without an effect.
    """

    options: ListenerOptions
    ends_speech: bool
    tells_speech: bool
    ignored: tuple[str, ...]

    @classmethod
    def read(cls, query: MultiMapping[str], settings: VoiceSettings) -> ListenQuery:
        """Read a query; what it leaves out comes from the settings.

        Raises:
            ModelError: a parameter has another form; the reason names it.
        """
        silence = query.get("endpointing", "true")
        ends_speech = silence != "false"
        usual = settings.endpointing_ms
        endpointing = usual if silence in _SWITCH else _number(query, "endpointing", usual)
        return cls(
            ListenerOptions(
                audio=audio_of(query, _number(query, "channels", 1)),
                hearing=HearingOptions(
                    language=_language(query, settings.language),
                    keyterms=checked_keyterms(_keyterms(query)),
                    words=True,
                ),
                interims=_switch(query, "interim_results"),
                endpointing=endpointing / 1000,
                eager=settings.eager_ms / 1000,
                long_silence=_number(query, "utterance_end_ms", 0) / 1000,
            ),
            ends_speech=ends_speech,
            tells_speech=_switch(query, "vad_events"),
            ignored=ignored_of(query, _KNOWN),
        )


def ignored_of(query: MultiMapping[str], known: Collection[str]) -> tuple[str, ...]:
    """Return the names of unknown parameters, unless their values ask for nothing."""
    return tuple(
        sorted(
            {name for name, value in query.items() if name not in known}
            - {name for name, value in query.items() if value in ("false", "none", "")}
        )
    )


def checked_keyterms(terms: Sequence[str]) -> tuple[str, ...]:
    """Return keyterms without empty ones.

    Raises:
        ModelError: there are too many.
    """
    found = tuple(term for each in terms if (term := each.strip()))
    size = sum(map(len, found))
    if len(found) > MAX_KEYTERMS or size > MAX_KEYTERM_CHARACTERS:
        raise ModelError(
            f"{len(found)} keyterms of {size} characters were given; there may be {MAX_KEYTERMS} "
            f"of {MAX_KEYTERM_CHARACTERS} characters",
            status=400,
        )
    return found


def _keyterms(query: MultiMapping[str]) -> list[str]:
    terms = [*query.getall("keyterm", []), *query.getall("keyterms", [])]
    # A keyword may have an intensifier, such as "Partway:2".
    return terms + [word.partition(":")[0] for word in query.getall("keywords", [])]


def _language(query: MultiMapping[str], usual: str) -> str:
    language = query.get("language", usual)
    if language == _ANY_LANGUAGE or query.get("detect_language", "false") != "false":
        return ""
    return language


def audio_of(query: MultiMapping[str], channels: int = 1) -> AudioFormat:
    """Return the form of audio with so many channels.

    Raises:
        ModelError: it is out of range; the status is 400.
    """
    encoding = query.get("encoding", "linear16")
    try:
        return AudioFormat(
            cast("Encoding", encoding),
            _number(query, "sample_rate", _USUAL_RATE.get(encoding, 16_000)),
            channels,
        )
    except ValueError as fault:
        raise ModelError(str(fault), status=400) from None


def _number(query: MultiMapping[str], name: str, usual: int) -> int:
    text = query.get(name)
    if text is None:
        return usual
    if text.isascii() and text.isdecimal() and len(text) <= 6 and int(text) <= _MOST_SILENCE:
        return int(text)
    raise ModelError(
        f"{name}: {text[:40]!r} was given; it must be a whole number from 0 to {_MOST_SILENCE}",
        status=400,
    )


def _switch(query: MultiMapping[str], name: str) -> bool:
    text = query.get(name, "false")
    if text.lower() not in _SWITCH:
        raise ModelError(f"{name}: {text[:40]!r} was given; it must be true or false", status=400)
    return _SWITCH[text.lower()]
