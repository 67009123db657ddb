"""The turns that a stream of ``v2/speak`` speaks, and how much of them was heard."""

from __future__ import annotations

import secrets
from typing import Any

from partway.container.models.voice.limits import MAX_ANSWER
from partway.container.models.voice.playback import Playback
from partway.container.models.voice.wires.text_speaker import TooMuchText


class SpokenTurn:
    """One answer: the text up to a ``Flush``, and its audio.

    Attributes:
        id: names the turn to the client.
        playback: knows which words are heard after how much of the audio.
        has_begun: whether its first phrase was spoken, or it has ended without one.
        has_words: whether it has a phrase.
    """

    def __init__(self, rate: int) -> None:
        self.id = f"dg_sp_{secrets.token_hex(6)}"
        self.playback = Playback(rate)
        self.has_begun = False
        self.has_words = False
        self._text = ""

    @property
    def characters(self) -> int:
        return len(self._text)

    def check(self, text: str) -> None:
        """Check whether text may be added.

        Raises:
            TooMuchText: the turn would have more than it may.
        """
        if len(self._text) + len(text) > MAX_ANSWER:
            raise TooMuchText(
                "TURN_TOO_LONG",
                f"a text of {len(text)} characters is not spoken: its turn has {len(self._text)} "
                f"already, and may have at most {MAX_ANSWER}; a Flush begins the next turn",
            )

    def add(self, text: str) -> None:
        self._text += text

    def metadata(self) -> dict[str, Any]:
        """Return the members that report of the turn; nothing here is billed."""
        return {
            "speech_id": self.id,
            "audio_duration_ms": self.playback.sent_ms,
            "input_character_count": self.characters,
            "billable_character_count": self.characters,
            "controls_applied": {
                "pronunciations_applied": 0,
                "breaks_applied": 0,
                "pronunciation_warnings": 0,
            },
        }

    def split(self, heard_ms: int) -> tuple[str, str]:
        """Return the text that was heard in some milliseconds of the audio, and the rest."""
        heard = self.playback.heard_text(heard_ms)
        # Phrases have all characters of the text but for its spaces.
        count = sum(map(len, heard.split()))
        end = 0
        while count:
            count -= not self._text[end].isspace()
            end += 1
        return self._text[:end], self._text[end:]
