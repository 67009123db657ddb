"""Every size, count, pattern and time limit of the project, named, with its unit and its precedent.

Limits that an operator may change are defaults: ``partway.gateway.settings.settings`` starts from
them. Sizes are bytes, times are seconds.
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
    """The size of an envelope message that holds a part of ``part_bytes`` bytes.

    Base64 makes 4 bytes of 3; 64 KiB are for the names around it and for padding.
    """
    return part_bytes * 4 // 3 + 64 * KIB


#: Largest envelope message from a WebSocket client.
MAX_ENVELOPE_BYTES: Final = envelope_bytes(MAX_PART_BYTES)

#: Up to so many bytes a JSON envelope is written or read at once, in a millisecond. A longer one,
#: of which the largest would hold everybody up for a tenth of a second, is coded in turns with
#: others, by pieces of its part; three bytes are four characters of base64.
JSON_AT_ONCE: Final = 256 * KIB
JSON_PIECE: Final = 96 * KIB

#: Members in one map of an event; the largest has four.
MAX_EVENT_MEMBERS: Final = 8

#: Fragments a client may cut one envelope message into. Browsers send one, proxies a few;
#: 2,048 fragments of 16 KiB carry more than the largest envelope.
MAX_ENVELOPE_FRAGMENTS: Final = 2048

# --- Event streams -------------------------------------------------------------------------------

#: Header block of one event stream message; the encoding's own limit (clause 2.3).
MAX_EVENT_HEADERS_BYTES: Final = 128 * KIB

#: Headers in one message. The encoding sets none; 128 KiB could hold 40,000, which cost a hundred
#: times what their bytes cost on the wire. The largest known event has six.
MAX_EVENT_HEADERS: Final = 64

#: One byte array or string in a header: AWS's SDKs read its u16 length as if it were signed.
MAX_EVENT_HEADER_VALUE_BYTES: Final = 32 * KIB - 1

#: Two lengths, two checksums: what a message is longer than its headers and payload.
EVENT_FRAMING_BYTES: Final = 16

#: What an exception event fits into: as much of a client's stream window is held back for it
#: (clause 2.3-6).
EXCEPTION_EVENT_BYTES: Final = 1 * KIB


def signed_event_bytes(part_bytes: int) -> int:
    """The largest payload of a signed message: a message that holds ``part_bytes`` bytes."""
    return part_bytes + MAX_EVENT_HEADERS_BYTES + EVENT_FRAMING_BYTES


# --- Buffers -------------------------------------------------------------------------------------

#: Unsent bytes on one leg at which the other leg stops being read, and the level at which it is
#: read again. asyncio's own default high-water mark is 64 KiB; 256 KiB carries 50 ms of a
#: 40 Mbit/s stream. Bound per direction: high-water mark + one part + one socket read.
WRITE_HIGH_WATER: Final = 256 * KIB
WRITE_LOW_WATER: Final = 64 * KIB

#: Frames delivered before other connections have their turn: about a quarter of a millisecond.
#: One read of 64 KiB holds 10,000 empty masked frames.
FRAMES_PER_TURN: Final = 64

#: Bytes that a WebSocket connection reads before other connections have their turn. One turn of
#: uvloop's may read a connection 32 times in a row, up to 256 KiB each time.
READ_BYTES_PER_TURN: Final = 256 * KIB

#: Connections that have more to deliver than one turn take turns for so long before the loop reads
#: and accepts again.
ROUND_SECONDS: Final = 0.01
#: A read over this waits its turn while there are such connections. A request's head is shorter,
#: and so is a tenth of a second of speech (16 kHz, 16 bits: 3,200 bytes).
LONG_READ: Final = 4 * KIB

#: Up to here a copy costs less than a second buffer on the way to the socket.
JOIN_UP_TO: Final = 16 * KIB

#: Bytes of HTTP/1.1 parsed before other connections have their turn: a chunk may be of six of them,
#: and a read brings a quarter of a megabyte.
HTTP1_BYTES_PER_TURN: Final = 4 * KIB

#: Bytes of a body of HTTP/1.1, or behind the head of an upgrade, that nobody has taken; then its
#: client is read no more (aiohttp: twice 64 KiB), unless somebody waits for all of a stated length.
HTTP1_HELD_BYTES: Final = 128 * KIB

#: Frames that wait for one another, to leave in one write. So many of that size are the high-water
#: mark.
FRAMES_TOGETHER: Final = WRITE_HIGH_WATER // JOIN_UP_TO

#: What a queued part costs beside its payload (tuple, bytes object, slot in the queue), so that a
#: flood of empty parts meets a high-water mark too.
PART_OVERHEAD: Final = 128

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: A paused direction that moves no byte for this long ends the stream (clause 1.4-2).
#: Envoy's stream idle timeout is 5 minutes too.
STALL_TIMEOUT: Final = 300.0

# --- Opening a stream ----------------------------------------------------------------------------

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

#: Characters of an error's message that the log repeats; a client may have had a say in it.
LOGGED_CHARACTERS: Final = 300

#: A request's target and each of its headers, name and value (aiohttp: 8,190), and how many headers
#: it has: an AWS SDK sends about 20.
MAX_HEADER_LINE: Final = 8190
MAX_HEADERS: Final = 64

#: A request's head in all (node: 16 KiB), as it is counted by RFC 9113 §6.5.2: each header counts
#: 32 bytes more than it has.
MAX_HEAD_BYTES: Final = 16 * KIB

#: Connections the kernel holds until they are accepted; one that finds asyncio's 100 places taken
#: tries again after a whole second.
ACCEPT_BACKLOG: Final = 1024

# --- HTTP/2 --------------------------------------------------------------------------------------

#: Streams of one connection open at once. AWS's SDK for Python has one connection for a host and
#: puts all its streams on it; nginx allows 128, Envoy 100 by default, h2's servers up to 2^31 - 1.
HTTP2_MAX_STREAMS: Final = 1000

#: Largest frame we accept (RFC 9113 §4.2: the least one may ask for).
HTTP2_MAX_FRAME: Final = 16_384

#: What a client is told of a head's limit (hyper's servers tell 16 KiB too).
HTTP2_MAX_HEADER_LIST: Final = MAX_HEAD_BYTES

#: A head over that limit is answered, and so has to be decoded: the next one may refer to its
#: headers. Up to here it is, on the wire and unpacked (a byte on the wire can stand for a whole
#: entry of HPACK's table; Envoy takes 60 KiB); beyond, no later one can be read. And the frames
#: that it may be cut into (nghttp2: 8 CONTINUATION frames; h2: 64).
HTTP2_MAX_HEADER_BLOCK: Final = 64 * KIB
HTTP2_MAX_CONTINUATIONS: Final = 8

#: Changes of the size of HPACK's table at the beginning of a header block. RFC 7541 §4.2 needs two:
#: to the smallest size since the last block, and to that of now. Each has hpack look at the table.
HPACK_MAX_SIZE_UPDATES: Final = 2

#: Resets of a connection's streams: so many at once, so many a second after that (nghttp2's marks
#: against rapid reset, CVE-2023-44487).
HTTP2_RESET_BURST: Final = 1000
HTTP2_RESET_RATE: Final = 33.0

#: Header blocks of a connection, which are requests and trailers: as many at once as streams may be
#: open, and so many more. nginx ends a connection after 1,000 requests (``keepalive_requests``),
#: however long they took.
HTTP2_HEADERS_BURST: Final = 250
HTTP2_HEADERS_RATE: Final = 1000.0

#: A block with more bytes than a request of an SDK's has, session token included, counts as one
#: more for each KiB that it is over, on the wire and again once it is decoded; one with more
#: headers, for each MAX_HEADERS of them.
HTTP2_LARGE_HEADERS: Final = 4 * KIB

#: PING and PRIORITY frames, and those of types that we do not know, together.
HTTP2_CONTROL_BURST: Final = 1000
HTTP2_CONTROL_RATE: Final = 33.0

#: SETTINGS frames: each may change the window of every stream. Clients send one or two.
HTTP2_SETTINGS_BURST: Final = 100
HTTP2_SETTINGS_RATE: Final = 1.0

#: DATA frames with next to nothing in them; the smallest event has 16 bytes. The stream that sends
#: them beyond this is reset.
HTTP2_TINY_DATA: Final = 16
HTTP2_TINY_BURST: Final = 10_000
HTTP2_TINY_RATE: Final = 1000.0

#: WINDOW_UPDATE frames; beyond this those of one read are added up before they are looked at.
HTTP2_WINDOW_UPDATE_BURST: Final = 1000
HTTP2_WINDOW_UPDATE_RATE: Final = 1000.0

#: Streams that we have reset and whose late frames are still recognised.
HTTP2_RESET_REMEMBERED: Final = 2000

#: Frames looked at before other connections have their turn: about a millisecond. A header block
#: counts as so many of them, and as one more for so many of its bytes, each of which can be a
#: header.
HTTP2_FRAMES_PER_TURN: Final = 64
HTTP2_HEADERS_IN_FRAMES: Final = 8
HTTP2_HEADER_BYTES_IN_A_FRAME: Final = 4

# --- Acknowledgements of TCP ---------------------------------------------------------------------

#: A read that nothing has answered is acknowledged after so long (Linux would take 0.04 s, its
#: TCP_DELACK_MIN). It is the shortest timer that uvloop has.
ACKNOWLEDGED_WITHIN: Final = 0.001

# --- Ending a stream -----------------------------------------------------------------------------

#: After the closing handshake: no byte moved for this long and the connection is aborted.
LINGER_TIMEOUT: Final = 5.0

#: Between two looks whether the client has left a connection of HTTP/1.1 that is not read from.
LEAVING_INTERVAL: Final = 1.0

#: However steadily a peer takes its last bytes, it has them after this long: a part of 16 MiB at
#: half a megabit a second.
FINISH_TIMEOUT: Final = 300.0

# --- Stopping a process --------------------------------------------------------------------------

#: After SIGTERM streams may end by themselves for this long …
SHUTDOWN_GRACE: Final = 15.0
#: … then they are ended, spread over this window so that clients do not return as a herd …
SHUTDOWN_SPREAD: Final = 5.0
#: … in steps that are at least this far apart: 4,096 streams are nine in a step, where a timer for
#: each would be 800 a second, of which each comes back late …
SHUTDOWN_STEP: Final = 0.01
#: … with at most so many ended in one turn of the loop when it comes late: at 0.5 ms each, 32 ms in
#: which nobody else is answered …
SHUTDOWN_BURST: Final = 64
#: … and this much later the process leaves whatever is left: 25 s, before the SIGKILL at 30 s.
SHUTDOWN_HARD: Final = 5.0

# --- Signatures ----------------------------------------------------------------------------------

#: How far a request's or an event's date may be from our clock (clause 2.4-5; AWS: 5 minutes).
MAX_CLOCK_SKEW: Final = 300

#: Longest life of a presigned URL (clause 3-5; Amazon Transcribe's WebSocket URLs: 300 s).
MAX_PRESIGN_EXPIRES: Final = 300

#: Parameters of a query that is looked at for a signature or a token. A presigned URL has ten; a
#: head of 64 KiB could hold 32,000, a tenth of a second's work for whoever sends it.
MAX_QUERY_PARAMETERS: Final = 128

#: Heads whose canonical form is remembered. With it each holds a hundred KiB at most.
REMEMBERED_HEADS: Final = 8

# --- Inference formats ---------------------------------------------------------------------------

#: Bytes of a body that are read in one call of a library, which keeps the interpreter as long: a
#: millisecond or two.
MEDIA_PIECE: Final = 128 * KIB

#: Longest record of a body in a format that is read record by record; the largest body that
#: ``/invocations`` takes (25 MiB) may be one record.
MAX_RECORD_BYTES: Final = 32 * MIB

#: Longest body of JSON whose records are not one array: columns, tensors, a DataFrame. It is parsed
#: at once, and its numbers take sixteen times their bytes as Python has them: 128 MiB.
MAX_JSON_TABLE_BYTES: Final = 8 * MIB

#: Most records of one body. Answered as JSON, with two numbers each, they are 70 MiB.
MAX_RECORDS: Final = 1 << 20

#: Most features of a record. Sparse records may announce any number; keys are int32 in scipy.
MAX_WIDTH: Final = (1 << 31) - 1

#: Most numbers that the sparse records of a body may be filled up to, where they are wanted dense:
#: as float64 they are 256 MiB.
MAX_DENSE_NUMBERS: Final = 1 << 25

#: Objects and arrays in one another; documented bodies have six.
MAX_JSON_DEPTH: Final = 64

#: Dimensions of a tensor (TensorRT's ``Dims::MAX_DIMS``). Each may cost an element two brackets
#: where its request becomes JSON.
MAX_TENSOR_DIMENSIONS: Final = 8

#: Tensors of one request, one answer, or one list of wanted outputs. A table with a tensor for each
#: column has hundreds. A tensor costs what a thousand bytes of numbers do, and takes six to state.
MAX_TENSORS: Final = 4096

#: Most bytes of names, as times what came, where each instance has the names of its tensors anew;
#: and so many in any case. A number takes two bytes of JSON at least, or four as FP32, and a name
#: of 24 characters 26 more: only names that are longer than all else are bound by it. While a body
#: is made there are several copies of them.
NAMES_PER_BYTE: Final = 16
NAMES_ANYWAY: Final = MIB

# --- gRPC ----------------------------------------------------------------------------------------

#: Most bytes of a status's message, on the wire; clients take 8 KiB of metadata unless they are set
#: otherwise (gRPC core: grpc.max_metadata_size).
GRPC_STATUS_BYTES: Final = 4 * KIB

#: Levels of arrays and objects in a prediction: an object is three of protobuf's, of which its
#: readers take 100.
GRPC_VALUE_DEPTH: Final = 32

#: Most bytes of a chunk in one message of a stream; clients take 4 MiB unless they are set
#: otherwise (gRPC core: grpc.max_receive_message_length).
GRPC_CHUNK_BYTES: Final = 2 * MIB

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

#: An AWS account's number, as ARNs have it.
ACCOUNT: Final = re.compile(r"[0-9]{12}")

#: An AWS region's name, as far as it is part of a signature's scope.
REGION: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9]){1,40}")

#: A DNS name of a domain, in the one case that it is compared in (RFC 1035 §2.3.4).
DNS_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
