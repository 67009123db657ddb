"""Every size, count, pattern and time limit of the project, named, with its unit and its precedent.

Those an operator may change are defaults: ``gateway.settings`` starts from them. Sizes are bytes,
times are seconds.
"""

from __future__ import annotations

import re
from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# --- Frames and messages -------------------------------------------------------------------------

#: Largest payload of one part, and so of one frame (clause 1.3-3). The payload limit of the event
#: stream encoding that AWS SDKs speak: 16 MiB.
MAX_PART_BYTES: Final = 16 * MIB

#: Largest control frame payload (RFC 6455 §5.5).
MAX_CONTROL_BYTES: Final = 125

#: Longest Close reason: a control payload less the two bytes of the code (RFC 6455 §5.5.1).
MAX_CLOSE_REASON_BYTES: Final = MAX_CONTROL_BYTES - 2


def envelope_bytes(part_bytes: int) -> int:
    """The size of an envelope message that holds a part of so many bytes.

    Base64 makes 4 bytes of 3; 64 KiB are for the names around it and for padding.
    """
    return part_bytes * 4 // 3 + 64 * KIB


#: Largest envelope message from a WebSocket client.
MAX_ENVELOPE_BYTES: Final = envelope_bytes(MAX_PART_BYTES)

#: Members in one map of an event; the largest has four.
MAX_EVENT_MEMBERS: Final = 8

#: Fragments a client may cut one envelope message into. Browsers send one, proxies a few;
#: 2,048 fragments of 16 KiB carry more than the largest envelope.
MAX_ENVELOPE_FRAGMENTS: Final = 2048

# --- Buffers -------------------------------------------------------------------------------------

#: Unsent bytes on one leg at which the other leg stops being read, and the level at which it is
#: read again. asyncio's own default high-water mark is 64 KiB; 256 KiB carries 50 ms of a
#: 40 Mbit/s stream. Bound per direction: high-water mark + one part + one socket read.
WRITE_HIGH_WATER: Final = 256 * KIB
WRITE_LOW_WATER: Final = 64 * KIB

#: Most bytes one socket read brings: asyncio reads up to 256 KiB at once, uvloop 64 KiB.
MAX_SOCKET_READ: Final = 256 * KIB

#: Frames delivered before other connections have their turn: about a quarter of a millisecond.
#: One read of 64 KiB holds 10,000 empty masked frames.
FRAMES_PER_TURN: Final = 64

#: Up to here a copy costs less than a second buffer on the way to the socket.
JOIN_UP_TO: Final = 16 * KIB

#: Part bytes the Python client holds for a caller that does not iterate; then it stops reading.
CLIENT_RECEIVE_HIGH_WATER: Final = 1 * MIB

#: What a queued part costs beside its payload (tuple, bytes object, slot in the queue), so that a
#: flood of empty parts meets a high-water mark too.
PART_OVERHEAD: Final = 128

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: Interval of the gateway's pings to a container, and how many may stay unanswered (clause 1.4-1).
CONTAINER_PING_INTERVAL: Final = 60.0
CONTAINER_PINGS_UNANSWERED: Final = 5

#: The same toward a client (clause 1.4-4).
CLIENT_PING_INTERVAL: Final = 60.0
CLIENT_PINGS_UNANSWERED: Final = 2

#: The same from the Python client toward a gateway. A gateway whose container takes nothing reads
#: nothing, pings neither, and says so itself after STALL_TIMEOUT: 6 unanswered come later.
GATEWAY_PING_INTERVAL: Final = 60.0
GATEWAY_PINGS_UNANSWERED: Final = 6

#: How often a ping that the socket has not taken yet is looked at again (clause 1.4-2).
PING_FLUSH_CHECK: Final = 1.0

#: A paused direction that moves no byte for this long ends the stream (clause 1.4-2).
#: Envoy's stream idle timeout is 5 minutes too.
STALL_TIMEOUT: Final = 300.0

#: How often a paused direction is looked at, as a share of the stall timeout.
STALL_CHECKS: Final = 10

#: Longest life of a stream (clause 1.4-5; AWS quota).
STREAM_LIFETIME: Final = 1800.0

# --- Opening a stream ----------------------------------------------------------------------------

#: A container accepts a connection within 250 ms (clauses 1.1-2, 4-6).
CONTAINER_CONNECT_TIMEOUT: Final = 0.25

#: Resolving a container's name; the 250 ms above begin after it.
CONTAINER_RESOLVE_TIMEOUT: Final = 5.0

#: A container answers the upgrade within 60 s (clause 4-6).
CONTAINER_HANDSHAKE_TIMEOUT: Final = 60.0

#: Bytes of a refusing container's body that are read and passed on (clause 4-6).
REFUSAL_BODY_BYTES: Final = 2048

#: The same of an API error, which quotes such a body in JSON: six characters for a byte at worst.
ERROR_BODY_BYTES: Final = 6 * REFUSAL_BODY_BYTES + 4 * KIB

#: Head of a handshake response; node allows 16 KiB, h11 16 KiB.
HANDSHAKE_HEAD_BYTES: Final = 16 * KIB

#: 1xx responses before the answer to an upgrade (RFC 9110 §15.2 sets no end; curl takes a few).
MAX_INTERIM_RESPONSES: Final = 16

#: A connection brings a whole request head within this time of being accepted or of its last
#: response (nginx client_header_timeout: 60 s).
REQUEST_HEAD_TIMEOUT: Final = 60.0

#: The gateway looks first at what a new connection speaks; that shows in its first byte, or in the
#: 24 of HTTP/2's preface, and comes within this time (Go's HTTP/2 server waits 10 s for the preface
#: too). The time for the head begins after it: 70 s at most from being accepted.
OPENING_TIMEOUT: Final = 10.0

#: Request line and each header line (aiohttp: 8,190), and how many headers: an AWS SDK sends
#: about 20. A head that is never finished holds half a megabyte at most.
MAX_HEADER_LINE: Final = 8190
MAX_HEADERS: Final = 64

#: Streams open at once on one gateway process; over it a client gets 503.
MAX_STREAMS: Final = 4096

#: Connections the kernel holds until they are accepted; one that finds asyncio's 100 places taken
#: tries again after a whole second.
ACCEPT_BACKLOG: Final = 1024

#: Connections on the listener, streams included.
MAX_CONNECTIONS: Final = 8192

# --- Ending a stream -----------------------------------------------------------------------------

#: No Close from the container this long after ours ends the stream (clause 1.5-12).
CLOSE_TIMEOUT: Final = 10.0

#: ``input_end = "drain"``: silence from the container that ends the stream (clause 1.5-12).
DRAIN_TIMEOUT: Final = 10.0

#: After the closing handshake: no byte moved for this long and the connection is aborted.
LINGER_TIMEOUT: Final = 5.0

#: However steadily a peer takes its last bytes, it has them after this long: a part of 16 MiB at
#: half a megabit a second.
FINISH_TIMEOUT: Final = 300.0

# --- Stopping a process --------------------------------------------------------------------------

#: After SIGTERM streams may end by themselves for this long …
SHUTDOWN_GRACE: Final = 15.0
#: … then they are ended, spread over this window so that clients do not return as a herd …
SHUTDOWN_SPREAD: Final = 5.0
#: … and this much later the process leaves whatever is left: 25 s, before the SIGKILL at 30 s.
SHUTDOWN_HARD: Final = 5.0

# --- Names and paths (clause 4-7, from AWS's service model) ---------------------------------------

MAX_ENDPOINT_NAME: Final = 63
ENDPOINT_NAME: Final = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9])*")


def is_name(text: str) -> bool:
    """Whether a text may be the name of an endpoint or of a variant."""
    return len(text) <= MAX_ENDPOINT_NAME and ENDPOINT_NAME.fullmatch(text) is not None


MAX_INVOCATION_PATH: Final = 100
INVOCATION_PATH: Final = re.compile(r"[A-Za-z0-9\-._]+(?:/[A-Za-z0-9\-._]+)*")

MAX_QUERY_STRING: Final = 2048
QUERY_STRING: Final = re.compile(
    r"[a-zA-Z0-9][A-Za-z0-9_-]*=(?:[A-Za-z0-9\-._~]|%[0-9A-Fa-f]{2})+"
    r"(?:&[a-zA-Z0-9][A-Za-z0-9_-]*=(?:[A-Za-z0-9\-._~]|%[0-9A-Fa-f]{2})+)*"
)
