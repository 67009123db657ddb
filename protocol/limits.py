"""The project's limits on sizes, counts and times, with units and precedents.

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

    Base64 makes 4 bytes of 3; 64 KiB are left for member names and padding.
    """
    return part_bytes * 4 // 3 + 64 * KIB


#: Largest envelope message from a WebSocket client.
MAX_ENVELOPE_BYTES: Final = envelope_bytes(MAX_PART_BYTES)

#: A JSON envelope of up to JSON_AT_ONCE bytes is coded in one call, which takes a millisecond. A
#: longer one is coded in pieces of JSON_PIECE bytes, in turns with other connections: the largest
#: would block the loop for a tenth of a second. Three bytes are four characters of base64.
JSON_AT_ONCE: Final = 256 * KIB
JSON_PIECE: Final = 96 * KIB

#: Members in one map of an event; the largest has four.
MAX_EVENT_MEMBERS: Final = 8

#: Fragments a client may cut one envelope message into. Browsers send one, proxies a few;
#: 2,048 fragments of 16 KiB carry more than the largest envelope.
MAX_ENVELOPE_FRAGMENTS: Final = 2048

# --- Event streams -------------------------------------------------------------------------------

#: Header block of one event stream message; the limit of the encoding itself (clause 2.3).
MAX_EVENT_HEADERS_BYTES: Final = 128 * KIB

#: Headers in one message. The encoding sets no limit. 128 KiB could hold 40,000 headers, whose
#: objects take a hundred times their bytes on the wire. The largest known event has six.
MAX_EVENT_HEADERS: Final = 64

#: One byte array or string in a header: AWS's SDKs read its u16 length as if it were signed.
MAX_EVENT_HEADER_VALUE_BYTES: Final = 32 * KIB - 1

#: Bytes of a message beside its headers and payload: two lengths and two checksums.
EVENT_FRAMING_BYTES: Final = 16

#: Largest exception event. So many bytes of a client's stream window are reserved for one (clause
#: 2.3-6).
EXCEPTION_EVENT_BYTES: Final = 1 * KIB


def signed_event_bytes(part_bytes: int) -> int:
    """The largest payload of a signed message: a message with a part of ``part_bytes`` bytes."""
    return part_bytes + MAX_EVENT_HEADERS_BYTES + EVENT_FRAMING_BYTES


# --- Buffers -------------------------------------------------------------------------------------

#: Unsent bytes on one leg. At the high-water mark reading of the other leg stops; at the low-water
#: mark it resumes. The default high-water mark of asyncio is 64 KiB. 256 KiB carries 50 ms of a
#: 40 Mbit/s stream. Bound per direction: high-water mark + one part + one socket read.
WRITE_HIGH_WATER: Final = 256 * KIB
WRITE_LOW_WATER: Final = 64 * KIB

#: Frames delivered before other connections have their turn: about a quarter of a millisecond.
#: One read of 64 KiB holds 10,000 empty masked frames.
FRAMES_PER_TURN: Final = 64

#: Bytes that a WebSocket connection reads before other connections have their turn. One turn of
#: uvloop's may read a connection 32 times in a row, up to 256 KiB each time.
READ_BYTES_PER_TURN: Final = 256 * KIB

#: Connections that have more to deliver than one turn take turns for this long before the loop
#: reads and accepts again.
ROUND_SECONDS: Final = 0.01
#: A longer read waits for its turn while such connections exist. A request's head is shorter, and
#: so is a tenth of a second of speech (16 kHz, 16 bits: 3,200 bytes).
LONG_READ: Final = 4 * KIB

#: Up to this size, a copy costs less than a second buffer on the way to the socket.
JOIN_UP_TO: Final = 16 * KIB

#: Bytes of HTTP/1.1 parsed before other connections have their turn: a chunk may have six bytes,
#: and one read may bring 256 KiB.
HTTP1_BYTES_PER_TURN: Final = 4 * KIB

#: Bytes held of an HTTP/1.1 body, or after the head of an upgrade, that no handler has taken. Above
#: this the client is not read (aiohttp: twice 64 KiB), unless a handler waits for the whole of a
#: body with a stated length.
HTTP1_HELD_BYTES: Final = 128 * KIB

#: Most frames that are gathered for one write. So many of JOIN_UP_TO bytes reach the high-water
#: mark.
FRAMES_TOGETHER: Final = WRITE_HIGH_WATER // JOIN_UP_TO

#: Memory of a queued part beside its payload (tuple, bytes object, slot in the queue), so that a
#: flood of empty parts reaches a high-water mark too.
PART_OVERHEAD: Final = 128

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: A paused direction that moves no byte for this long ends the stream (clause 1.4-2).
#: Envoy's stream idle timeout is 5 minutes too.
STALL_TIMEOUT: Final = 300.0

#: Checks of a paused direction within one stall timeout.
STALL_CHECKS: Final = 10

#: Interval of pings to a container, and how many may stay unanswered (clause 1.4-1).
CONTAINER_PING_INTERVAL: Final = 60.0
CONTAINER_PINGS_UNANSWERED: Final = 5

#: How often a ping that the socket has not taken yet is checked again (clause 1.4-2).
PING_FLUSH_CHECK: Final = 1.0

# --- Opening a stream ----------------------------------------------------------------------------

#: Bytes of a refusing container's body that are read and passed on (clause 4-6).
REFUSAL_BODY_BYTES: Final = 2048

#: Body of an API error, which quotes a refusing container's body in JSON: up to six characters per
#: byte.
ERROR_BODY_BYTES: Final = 6 * REFUSAL_BODY_BYTES + 4 * KIB

#: Head of a handshake response; node allows 16 KiB, h11 16 KiB.
HANDSHAKE_HEAD_BYTES: Final = 16 * KIB

#: 1xx responses before an answer (RFC 9110 §15.2 sets no limit; curl takes a few).
MAX_INTERIM_RESPONSES: Final = 16

#: A connection brings a whole request head within this time of being accepted or of its last
#: response (nginx client_header_timeout: 60 s).
REQUEST_HEAD_TIMEOUT: Final = 60.0

#: Characters of an error's message that the log repeats; part of it may be a client's text.
LOGGED_CHARACTERS: Final = 300

#: Most bytes of a request's target and of each header with its name (aiohttp: 8,190), and most
#: headers: an AWS SDK sends about 20.
MAX_HEADER_LINE: Final = 8190
MAX_HEADERS: Final = 64

#: A request's whole head (node: 16 KiB), counted by RFC 9113 §6.5.2: 32 bytes are added for each
#: header.
MAX_HEAD_BYTES: Final = 16 * KIB

#: Connections the kernel holds until they are accepted. asyncio's default is 100; a client that
#: finds the queue full retries after a second.
ACCEPT_BACKLOG: Final = 1024

# --- HTTP/2 --------------------------------------------------------------------------------------

#: Streams of one connection open at once. AWS's SDK for Python has one connection for a host and
#: puts all its streams on it. A stream over the limit neither begins nor fails there. By default
#: nginx allows 128, Envoy 100 and h2's servers 2^31 - 1.
HTTP2_MAX_STREAMS: Final = 1000

#: Largest frame we accept (RFC 9113 §4.2: the least one may ask for).
HTTP2_MAX_FRAME: Final = 16_384

#: The limit of a head that is announced to clients (hyper's servers announce 16 KiB too).
HTTP2_MAX_HEADER_LIST: Final = MAX_HEAD_BYTES

#: A head over that limit is still decoded, because later heads may refer to its headers in HPACK's
#: table. These limits hold for its bytes on the wire, for its decoded bytes (one byte can stand for
#: a whole table entry; Envoy takes 60 KiB) and for its frames (nghttp2: 8 CONTINUATION frames; h2:
#: 64). A head over these limits ends the decoding of all later heads.
HTTP2_MAX_HEADER_BLOCK: Final = 64 * KIB
HTTP2_MAX_CONTINUATIONS: Final = 8

#: Changes of the size of HPACK's table at the beginning of a header block. RFC 7541 §4.2 needs two:
#: to the smallest size since the last block, and to the current size. Each makes hpack go through
#: its table.
HPACK_MAX_SIZE_UPDATES: Final = 2

#: Resets of a connection's streams: a burst, and then a rate per second (nghttp2's limits against
#: rapid reset, CVE-2023-44487).
HTTP2_RESET_BURST: Final = 1000
HTTP2_RESET_RATE: Final = 33.0

#: Header blocks of a connection, which are requests and trailers. The burst comes on top of as many
#: blocks as streams may be open. nginx ends a connection after 1,000 requests
#: (``keepalive_requests``), regardless of their pace.
HTTP2_HEADERS_BURST: Final = 250
HTTP2_HEADERS_RATE: Final = 1000.0

#: A larger block counts several times; an SDK's request with a session token is smaller. One more
#: is counted for each further KiB on the wire, for each further KiB once decoded, and for each
#: MAX_HEADERS headers.
HTTP2_LARGE_HEADERS: Final = 4 * KIB

#: PING and PRIORITY frames, and frames of unknown types, together.
HTTP2_CONTROL_BURST: Final = 1000
HTTP2_CONTROL_RATE: Final = 33.0

#: SETTINGS frames: each may change the window of every stream. Clients send one or two.
HTTP2_SETTINGS_BURST: Final = 100
HTTP2_SETTINGS_RATE: Final = 1.0

#: DATA frames of less than HTTP2_TINY_DATA bytes; the smallest event has 16. A stream that sends
#: more of them than this is reset.
HTTP2_TINY_DATA: Final = 16
HTTP2_TINY_BURST: Final = 10_000
HTTP2_TINY_RATE: Final = 1000.0

#: WINDOW_UPDATE frames; above this rate, all of one read are added up before they are handled.
HTTP2_WINDOW_UPDATE_BURST: Final = 1000
HTTP2_WINDOW_UPDATE_RATE: Final = 1000.0

#: Streams that we have reset and whose late frames are still recognised.
HTTP2_RESET_REMEMBERED: Final = 2000

#: Frames looked at before other connections have their turn: about a millisecond. A header block
#: counts as HTTP2_HEADERS_IN_FRAMES frames, plus one for every HTTP2_HEADER_BYTES_IN_A_FRAME bytes:
#: each byte can be a header.
HTTP2_FRAMES_PER_TURN: Final = 64
HTTP2_HEADERS_IN_FRAMES: Final = 8
HTTP2_HEADER_BYTES_IN_A_FRAME: Final = 4

# --- Acknowledgements of TCP ---------------------------------------------------------------------

#: A read without an answer is acknowledged after this time (Linux would take 0.04 s, its
#: TCP_DELACK_MIN). It is the shortest timer that uvloop has.
ACKNOWLEDGED_WITHIN: Final = 0.001

# --- Ending a stream -----------------------------------------------------------------------------

#: After the closing handshake: no byte moved for this long and the connection is aborted.
LINGER_TIMEOUT: Final = 5.0

#: Seconds between two checks whether the client has left an HTTP/1.1 connection that is not read.
LEAVING_INTERVAL: Final = 1.0

#: Longest time in which a peer may take its last bytes, even with steady progress: a part of 16 MiB
#: at half a megabit a second.
FINISH_TIMEOUT: Final = 300.0

# --- Stopping a process --------------------------------------------------------------------------

#: After SIGTERM streams have this long to end by themselves …
SHUTDOWN_GRACE: Final = 15.0
#: … then they are ended, spread over this window so that clients do not return as a herd …
SHUTDOWN_SPREAD: Final = 5.0
#: … in steps that are at least this far apart: 4,096 streams make nine per step; one timer per
#: stream would be 800 a second, and each would fire late …
SHUTDOWN_STEP: Final = 0.01
#: … a late loop ends at most this many in one turn: at 0.5 ms each, nothing else is answered for 32
#: ms …
SHUTDOWN_BURST: Final = 64
#: … and this much later the process exits regardless: after 25 s, before the SIGKILL at 30 s.
SHUTDOWN_HARD: Final = 5.0

# --- Signatures ----------------------------------------------------------------------------------

#: How far a request's or an event's date may be from our clock (clause 2.4-5; AWS: 5 minutes).
MAX_CLOCK_SKEW: Final = 300

#: Longest life of a presigned URL (clause 3-5; Amazon Transcribe's WebSocket URLs: 300 s).
MAX_PRESIGN_EXPIRES: Final = 300

#: Parameters of a query that is searched for a signature or a token. A presigned URL has ten. A
#: head of 64 KiB could hold 32,000, which take a tenth of a second to parse.
MAX_QUERY_PARAMETERS: Final = 128

#: Heads whose canonical form is remembered. Each takes at most a hundred KiB.
REMEMBERED_HEADS: Final = 8

# --- Inference formats ---------------------------------------------------------------------------

#: Bytes of a body that a library parses in one call. The call holds the interpreter lock for a
#: millisecond or two.
MEDIA_PIECE: Final = 128 * KIB

#: Longest record of a body in a format that is read record by record; the largest body that
#: ``/invocations`` takes (25 MiB) may be one record.
MAX_RECORD_BYTES: Final = 32 * MIB

#: Longest body of JSON whose records are not one array: columns, tensors, a DataFrame. It is parsed
#: in one call, and as Python objects its numbers take sixteen times their bytes: 128 MiB.
MAX_JSON_TABLE_BYTES: Final = 8 * MIB

#: Most records of one body. Answered as JSON, with two numbers each, they are 70 MiB.
MAX_RECORDS: Final = 1 << 20

#: Most features of a record. Sparse records may announce any number; keys are int32 in scipy.
MAX_WIDTH: Final = (1 << 31) - 1

#: Most numbers of a body's sparse records once they are made dense: as float64 they take 256 MiB.
MAX_DENSE_NUMBERS: Final = 1 << 25

#: Nesting of objects and arrays; documented bodies have six levels.
MAX_JSON_DEPTH: Final = 64

#: Dimensions of a tensor (TensorRT's ``Dims::MAX_DIMS``). Each may add two brackets to every
#: element when the request is converted to JSON.
MAX_TENSOR_DIMENSIONS: Final = 8

#: Tensors of one request, one answer, or one list of wanted outputs. A table with a tensor for each
#: column has hundreds. A tensor costs as much as a thousand bytes of numbers, though a body can
#: state one in six bytes.
MAX_TENSORS: Final = 4096

#: Bound on the names in a converted body, in which each instance repeats the names of its tensors:
#: NAMES_PER_BYTE times the bytes received, or NAMES_ANYWAY. A number takes at least two bytes of
#: JSON, or four as FP32, and a name of 24 characters takes 26 more. So only names that outweigh all
#: other data reach the bound. Several copies of the names exist while a body is made.
NAMES_PER_BYTE: Final = 16
NAMES_ANYWAY: Final = MIB

# --- gRPC ----------------------------------------------------------------------------------------

#: Most bytes of a status's message, on the wire; clients take 8 KiB of metadata unless they are set
#: otherwise (gRPC core: grpc.max_metadata_size).
GRPC_STATUS_BYTES: Final = 4 * KIB

#: Nesting of arrays and objects in a prediction: one level of objects takes three of protobuf's
#: levels, and protobuf's readers accept 100.
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

#: An AWS account's number, as in ARNs.
ACCOUNT: Final = re.compile(r"[0-9]{12}")

#: An AWS region's name, as far as it is part of a signature's scope.
REGION: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9]){1,40}")

#: A DNS name of a domain, in lower case, as names are compared (RFC 1035 §2.3.4).
DNS_NAME: Final = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)
