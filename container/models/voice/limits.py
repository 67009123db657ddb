"""The limits of the model ``voice``. Sizes are bytes, times are seconds."""

from __future__ import annotations

from typing import Final

#: Keyterms of a stream, and their characters in all. Whisper's prompt takes some 220 tokens, which
#: are fewer.
MAX_KEYTERMS: Final = 100
MAX_KEYTERM_CHARACTERS: Final = 2_000

#: Events of a stream that its wire has not taken; above it the stream's input waits.
MAX_LISTENER_EVENTS: Final = 256

#: Utterances of a stream that wait for their text; above it the stream's input waits. At 30 s each
#: they are 4 MB of audio.
MAX_UNHEARD_UTTERANCES: Final = 4

#: Longest utterance that is heard at once: the window of Whisper. A longer one is cut.
MAX_UTTERANCE: Final = 30.0
