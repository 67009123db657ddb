"""The limits of the model ``voice``. Sizes are bytes, times are seconds."""

from __future__ import annotations

from typing import Final

from partway.container.limits import JOB_DEADLINE
from partway.protocol.limits import KIB, MIB

#: Time for a program that stays to end a phrase that nobody waits for. Then the program is
#: replaced, which costs Piper the loading of its voice: 1.4 s.
ABANDONED_PHRASE: Final = 1.0

#: Time for ffmpeg to read a client's file; an answer must begin within a minute. Files that are
#: read at once, and time for which another one waits.
DECODING: Final = 30.0
FILES_AT_ONCE: Final = 2
FILE_WAIT: Final = 15.0

#: Time for the response in progress after a client has ended its input. Then it is cancelled.
ANSWER_AFTER_INPUT: Final = 60.0

#: Characters of one answer: more than an hour of speech.
MAX_ANSWER: Final = 64 * KIB

#: Seconds of audio in a client's file. As samples they are 58 MB.
MAX_FILE_SECONDS: Final = 1_800.0

#: Fields of a form, bytes of each of them but the file, and bytes of each one's headers.
MAX_FORM_FIELDS: Final = 64
MAX_FORM_FIELD: Final = 16 * KIB
MAX_FORM_PART_HEAD: Final = 2 * KIB

#: Characters of a session's instructions, and of a prompt for hearing.
MAX_INSTRUCTIONS: Final = 256 * KIB

#: Items of a conversation, and their characters; the oldest items are dropped.
MAX_ITEMS: Final = 1_024
MAX_REMEMBERED: Final = 4 * MIB

#: Parts of one message, and characters of each; an image's URL may have four times as many.
MAX_ITEM_PARTS: Final = 64
MAX_ITEM_TEXT: Final = 256 * KIB

#: Seconds of audio in one item, and items whose audio waits to be heard; above it the input waits.
MAX_ITEM_SECONDS: Final = 300.0
MAX_UNHEARD_ITEMS: Final = 4

#: Characters of a function's name, of a call's id, and of the names of voices and models.
MAX_NAME: Final = 512

#: Pairs of a response's metadata, with the characters of a name and of a value; as OpenAI's.
MAX_METADATA: Final = 16
MAX_METADATA_NAME: Final = 64
MAX_METADATA_VALUE: Final = 512

#: Silence allowed to a program that compresses audio; a phrase that it waits for may take a job's
#: time.
ENCODER_SILENCE: Final = JOB_DEADLINE + 10

#: Keyterms of a stream, and their characters in all. Whisper's prompt takes some 220 tokens, which
#: are fewer.
MAX_KEYTERMS: Final = 100
MAX_KEYTERM_CHARACTERS: Final = 2_000

#: Events of a stream that its wire has not taken; above it the stream's input waits.
MAX_LISTENER_EVENTS: Final = 256

#: Most characters of a phrase: some 20 s of speech. A longer sentence is cut at a mark or a space.
MAX_PHRASE: Final = 300

#: Functions that a session's model may call, and characters of all of them as JSON.
MAX_TOOLS: Final = 128
MAX_TOOLS_SIZE: Final = 256 * KIB

#: Longest text of a request for speech, in characters; as OpenAI's. Its body has escapes too.
MAX_SPEECH_INPUT: Final = 4_096
MAX_SPEECH_BODY: Final = 64 * KIB

#: Bytes of audio that one message holds whole: 87 s at 24 kHz. The longest phrase has some 20 s.
MAX_SPEECH_FILE: Final = 4 * MIB

#: Most characters of one text that is sent to be spoken on a stream; as Deepgram's.
MAX_SPEAK_CHARACTERS: Final = 2_000

#: A WAV file up to this size is sent whole, with its length: 22 s at 24 kHz. A longer one is sent
#: as it is made, since an answer must begin within a minute.
MAX_WHOLE_WAV: Final = MIB

#: Utterances of a stream that wait for their text; above it the stream's input waits. At 30 s each
#: they are 4 MB of audio.
MAX_UNHEARD_UTTERANCES: Final = 4

#: Characters of text of a stream that wait to be spoken, and flushes among them; above it they are
#: refused by name. The text is 40 minutes of speech.
MAX_UNSPOKEN: Final = 32_768
MAX_UNSPOKEN_FLUSHES: Final = 64

#: Longest utterance that is heard at once: the window of Whisper. A longer one is cut.
MAX_UTTERANCE: Final = 30.0

#: Audio that a conversation sends before it can have been heard. It covers the jitter of networks,
#: and an interruption loses no more.
PLAYBACK_AHEAD: Final = 0.5

#: Silence allowed to a program that speaks, before its first audio and between two pieces. A long
#: sentence takes Piper some seconds, and more on a busy machine.
PROGRAM_SILENCE: Final = 30.0

#: Time for such a program to load its voice.
PROGRAM_START: Final = 60.0
