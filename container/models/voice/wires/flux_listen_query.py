"""The wishes of a client of ``v2/listen``: its query, and its later changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from multidict import MultiMapping

from partway.container.errors import ModelError
from partway.container.models.voice.interfaces import HearingOptions
from partway.container.models.voice.listener import ListenerOptions
from partway.container.models.voice.settings import VoiceSettings
from partway.container.models.voice.speech_formats import number_of
from partway.container.models.voice.speech_turns import TurnOptions
from partway.container.models.voice.wires.listen_query import (
    audio_of,
    checked_keyterms,
    ignored_of,
)

_THRESHOLDS: Final = ("eager_eot_threshold", "eot_threshold", "eot_timeout_ms")
#: Parameters that are obeyed, or that ask for what is done anyway.
_KNOWN: Final = {
    *_THRESHOLDS,
    *("encoding", "keyterm", "language_hint", "mip_opt_out", "model", "sample_rate", "tag"),
}
#: Deepgram's ranges.
_EAGER: Final = (0.3, 0.9)
_END: Final = (0.5, 1.0)
_TIMEOUT: Final = (500.0, 60_000.0)
#: The threshold that no confidence reaches: silence alone ends a turn, or the client does.
_NEVER: Final = 1.0
#: Most language hints, and characters of each; each event repeats them.
_MOST_HINTS: Final = 16
_MOST_HINT: Final = 16


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When a turn ends; the usual values are Deepgram's.

    Attributes:
        eager: asks for the ends that are only likely, if it is a number.
        end: below 1, a turn ends by the container's own rules.
        timeout_ms: milliseconds of silence that end any turn.
    """

    eager: float | None = None
    end: float = 0.7
    timeout_ms: int = 5_000

    def changed(self, wishes: Mapping[str, object]) -> Thresholds:
        """Return them with a client's wishes, whose values are numbers or texts.

        None asks for the usual value.

        Raises:
            ModelError: a value is out of range; the status is 400.
        """
        usual = Thresholds()
        eager, end, timeout_ms = self.eager, self.end, self.timeout_ms
        if "eager_eot_threshold" in wishes:
            wish = wishes["eager_eot_threshold"]
            eager = None if wish is None else number_of("eager_eot_threshold", wish, *_EAGER)
        if "eot_threshold" in wishes:
            wish = wishes["eot_threshold"]
            end = usual.end if wish is None else number_of("eot_threshold", wish, *_END)
        if "eot_timeout_ms" in wishes:
            wish = wishes["eot_timeout_ms"]
            ms = usual.timeout_ms if wish is None else number_of("eot_timeout_ms", wish, *_TIMEOUT)
            timeout_ms = int(ms)
        return Thresholds(eager, end, timeout_ms)

    def turns(self, settings: VoiceSettings) -> TurnOptions:
        """Return the rules of turns that they mean."""
        timeout = self.timeout_ms / 1000
        usual = timeout if self.end >= _NEVER else settings.endpointing_ms / 1000
        return TurnOptions(min(usual, timeout), settings.eager_ms / 1000, patience=timeout)

    def trigger(self, settings: VoiceSettings) -> str:
        """Return why a turn ends that silence ends, as its client names it."""
        turns = self.turns(settings)
        return "timeout" if turns.endpointing == turns.patience else "model"

    def members(self) -> dict[str, Any]:
        """Return them as their client names them."""
        values = (self.eager, self.end, self.timeout_ms)
        named = zip(_THRESHOLDS, values, strict=True)
        return {name: value for name, value in named if value is not None}


@dataclass(frozen=True, slots=True)
class FluxListenQuery:
    """The query of a stream.

    Attributes:
        options: the listener's part of it.
        hints: the languages that are likely.
        ignored: the names of parameters without an effect.
    """

    options: ListenerOptions
    thresholds: Thresholds
    hints: tuple[str, ...]
    ignored: tuple[str, ...]

    @classmethod
    def read(cls, query: MultiMapping[str], settings: VoiceSettings) -> FluxListenQuery:
        """Read a query.

        Raises:
            ModelError: a parameter is out of range; the status is 400.
        """
        given = {name: query[name] for name in _THRESHOLDS if name in query}
        thresholds = Thresholds().changed(given)
        turns = thresholds.turns(settings)
        hints = checked_hints(query.getall("language_hint", []))
        options = ListenerOptions(
            audio=audio_of(query),
            hearing=HearingOptions(
                language=language_of(hints, settings),
                keyterms=checked_keyterms(query.getall("keyterm", [])),
                words=True,
            ),
            interims=True,
            resumptions=True,
            endpointing=turns.endpointing,
            eager=turns.eager,
            patience=turns.patience,
        )
        return cls(options, thresholds, hints, ignored_of(query, _KNOWN))


def checked_hints(hints: Sequence[str]) -> tuple[str, ...]:
    """Return the codes of the languages that are likely.

    Raises:
        ModelError: there are too many, or one is too long; the status is 400.
    """
    if len(hints) > _MOST_HINTS or any(len(each) > _MOST_HINT for each in hints):
        longest = max(map(len, hints), default=0)
        raise ModelError(
            f"{len(hints)} language hints of up to {longest} characters were given; there may be "
            f"{_MOST_HINTS} of {_MOST_HINT} characters",
            status=400,
        )
    return tuple(filter(None, hints))


def language_of(hints: Sequence[str], settings: VoiceSettings) -> str:
    """Return the language to hear: the only one that is hinted at, or the container's own."""
    return hints[0] if len(hints) == 1 else settings.language
