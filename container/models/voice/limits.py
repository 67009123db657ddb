"""The limits of the model ``voice``. Sizes are bytes, times are seconds."""

from __future__ import annotations

from typing import Final

#: Longest utterance that is heard at once: the window of Whisper. A longer one is cut.
MAX_UTTERANCE: Final = 30.0
