"""The limits of requests to containers, each with its unit and its precedent.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB

#: Head of a container's answer, and each chunk's line and trailer in its body (node: 16 KiB).
MAX_ANSWER_HEAD_BYTES: Final = 16 * KIB

#: The largest stated length of an answer: a signed number of 64 bits, as intermediaries read it
#: (nginx, Go).
MAX_ANSWER_LENGTH: Final = 2**63 - 1

#: Bytes of an answer in chunks that are parsed at a time: three thousand chunks of a byte.
ANSWER_TURN_BYTES: Final = 16 * KIB

#: Chunks of an answer that one turn parses, which takes llhttp about a millisecond. Pieces that a
#: caller takes one by one in a turn, which takes a response stream as long.
ANSWER_CHUNKS_PER_TURN: Final = 512
ANSWER_PIECES_PER_TURN: Final = 128

#: A chunk of an answer up to this is handed on whole, a longer one in pieces.
WHOLE_CHUNK_BYTES: Final = 64 * KIB

#: For the body of a container's error answer, from its head on; then the client gets what has come.
#: A process that dies of the error it reports has its last words in the socket already.
REFUSAL_BODY_TIMEOUT: Final = 5.0

#: For a request to end after the drain has broken it off; then it is left behind, as the HTTP
#: servers do (SHUTDOWN_HARD).
REQUEST_END_TIMEOUT: Final = 5.0

#: How long an idle connection to a container is kept, how many of one container, and how many of
#: all. gunicorn closes it after 2 s, uvicorn and node after 5 s. Each holds a file descriptor.
CONTAINER_IDLE_TIMEOUT: Final = 1.5
MAX_IDLE_OF_CONTAINER: Final = 64
MAX_IDLE_CONNECTIONS: Final = 512
