"""Every limit that the gateway alone has, named, with its unit and its precedent.

Those an operator may change are defaults: ``partway.gateway.settings.settings`` starts from
them. Sizes are bytes, times are seconds. What both sides of the wire share is in
:mod:`partway.protocol.limits`,
what the fleet alone has in :mod:`partway.gateway.fleet.limits`, the control plane alone in
:mod:`partway.gateway.apis.control.limits`, and requests of containers in
:mod:`partway.gateway.containers.limits`.
"""

from __future__ import annotations

import re
from typing import Final

from partway.protocol import limits
from partway.protocol.limits import KIB, MIB

# --- Bodies of plain requests and responses ------------------------------------------------------

#: A body that is gathered is there whole within this time of being asked for, however it dribbles
#: in (clause 4-6 gives a container 60 s too; 6 MiB then need 0.9 Mbit/s).
REQUEST_BODY_TIMEOUT: Final = 60.0

#: A body that is streamed brings its next byte within this time of being asked for it (nginx
#: ``client_body_timeout``: 60 s).
REQUEST_BODY_PAUSE: Final = 60.0

#: A client takes some of a response within this time, over HTTP/2 enough of it that there is room
#: for more (nginx ``send_timeout``: 60 s).
RESPONSE_TAKEN_TIMEOUT: Final = 60.0

# --- Settings that change, the start, the admin socket -------------------------------------------

#: Between two looks at whether the file of settings is another; it is read when two have found the
#: same.
SETTINGS_CHECK_INTERVAL: Final = 1.0

#: Until the gateway says that it listens though not every endpoint is settled.
SETTLING_TIMEOUT: Final = 30.0

#: Connections on the admin socket, which only the gateway's own user opens; and how many of them
#: may read logs, so that there is always one that can ask how the fleet is.
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_LOG_READERS: Final = 32

#: Instances whose logs are read together: each is an open file, or two while one is rotated.
MAX_LOGS_TOGETHER: Final = 64

#: Between two looks at logs that are followed (``tail -f``: 1 s).
LOG_FOLLOW_INTERVAL: Final = 0.5

#: Lines of a log that are shown, from the last one back, unless the caller says how many; and how
#: many may be asked for.
LOG_LINES: Final = 100
MAX_LOG_LINES: Final = 1_000_000

#: For what is answered on the admin socket when the gateway stops.
ADMIN_CLOSE_TIMEOUT: Final = 2.0

# --- Disks ---------------------------------------------------------------------------------------

#: What others' bodies, answers and outputs leave free of a file system, the smaller of the two: it
#: is for what the gateway writes down of requests, of endpoints and of all else.
DISK_RESERVE: Final = 1 / 20
DISK_RESERVE_BYTES: Final = 256 * MIB

#: Seconds between two tries of a step that the disk refused at the start. Freed room is noticed
#: soon, and a full disk is tried twelve times a minute.
DISK_RETRY_INTERVAL: Final = 5.0

# --- Buffers -------------------------------------------------------------------------------------

#: Part bytes the Python client holds for a caller that does not iterate; then it stops reading.
CLIENT_RECEIVE_HIGH_WATER: Final = 1 * MIB

#: Largest message that the Python client joins from its parts, unless its caller says otherwise: as
#: large as the runtime of containers joins them (``container.limits.MAX_MESSAGE_BYTES``).
CLIENT_MAX_MESSAGE: Final = limits.MAX_PART_BYTES

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: Interval of the gateway's pings to a container, and how many may stay unanswered (clause 1.4-1).
CONTAINER_PING_INTERVAL: Final = 60.0
CONTAINER_PINGS_UNANSWERED: Final = 5

#: Interval of the gateway's pings to a WebSocket client (clause 1.4-4). Proxies cut connections
#: that are idle for 55 s (Heroku) or 60 s (nginx, AWS's Application Load Balancer); one ping may
#: be lost or late.
CLIENT_PING_INTERVAL: Final = 25.0
#: The same for HTTP/2, whose PINGs end at the next proxy and keep nothing open there. TCP probes
#: clients of HTTP/1.1's event streams as often.
HTTP2_PING_INTERVAL: Final = 60.0
#: How many of these pings a client may leave unanswered.
CLIENT_PINGS_UNANSWERED: Final = 2

#: Interval of the Python client's pings to a gateway, and how many may stay unanswered. A gateway
#: whose container takes nothing reads nothing, pings neither, and says so itself after
#: STALL_TIMEOUT: 6 unanswered come later.
GATEWAY_PING_INTERVAL: Final = 60.0
GATEWAY_PINGS_UNANSWERED: Final = 6

#: Once a dial to an instance has timed out, TCP's keep-alive asks its host on each open connection:
#: whole seconds between two probes, and how many without an answer end the connection.
HOST_PROBE_INTERVAL: Final = 1
HOST_PROBES: Final = 3
#: Keep-alive does not ask while bytes are in flight. Those are given up when the host has
#: acknowledged nothing for this long: more than the three probes take.
HOST_SILENCE: Final = 5.0
#: Connections that are asked in one turn of the loop, at 13 µs each.
HOSTS_PROBED_AT_ONCE: Final = 256

#: How often a ping that the socket has not taken yet is looked at again (clause 1.4-2).
PING_FLUSH_CHECK: Final = 1.0

#: How often a paused direction is looked at, as a share of the stall timeout.
STALL_CHECKS: Final = 10

#: Longest life of a stream (clause 1.4-5; AWS quota).
STREAM_LIFETIME: Final = 1800.0

#: Longest life of a response stream, from the head of the container's answer on (AWS's guide,
#: "Inference options": 60 s for a regular response, 8 minutes for one that streams).
RESPONSE_LIFETIME: Final = 480.0

#: Longest life of a request of InvokeEndpoint, from its admission to its answer's last byte: what
#: dribbles keeps its place no longer than a response stream.
REQUEST_LIFETIME: Final = 480.0

# --- Opening a stream ----------------------------------------------------------------------------

#: A container accepts a connection within 250 ms (clauses 1.1-2, 4-6).
CONTAINER_CONNECT_TIMEOUT: Final = 0.25

#: Resolving a container's name; the 250 ms above begin after it.
CONTAINER_RESOLVE_TIMEOUT: Final = 5.0

#: For the TLS of a container's connection, once that is accepted, for which the endpoint's
#: ``connect_timeout`` is: two round trips and a signature, where a stream's cleartext has one.
CONTAINER_TLS_TIMEOUT: Final = 5.0

#: A container answers the upgrade within 60 s (clause 4-6).
CONTAINER_HANDSHAKE_TIMEOUT: Final = 60.0

#: A container answers a request within 60 s (clause 1.1-2), and its answer is never silent for
#: longer.
INVOCATION_TIMEOUT: Final = 60.0

#: The gateway looks first at what a new connection speaks; that shows in its first byte, or in the
#: 24 of HTTP/2's preface, and comes within this time (Go's HTTP/2 server waits 10 s for the preface
#: too). The time for the head begins after it: 70 s at most from being accepted.
OPENING_TIMEOUT: Final = 10.0

#: How old the page of metrics may be: it costs milliseconds where thousands of streams are open.
METRICS_AGE: Final = 1.0

#: Streams open at once on one gateway process; over it a client gets 503.
MAX_STREAMS: Final = 4096

#: Requests of InvokeEndpoint under way at once on one gateway process; over it a client gets 503.
MAX_REQUESTS: Final = 1024

#: The body of one: 6,291,456 bytes (section 5), of which a signed one is held whole.
MAX_INVOCATION_BODY: Final = 6 * MIB

#: The body of a request for predictions, and of a container's answer to it: the 1.5 MB of the
#: platform that has such requests.
MAX_PREDICTION_BODY: Final = 3 * MIB // 2

#: Threads that work on predictions. Python code runs on one core at a time, so more would only wait
#: for each other; the second is for other owners while one owner's work takes long.
PREDICTION_THREADS: Final = 2

#: A thread that computes gives the interpreter to the event loop after so many seconds. The loop
#: waits so long at each read and write. With Python's own 5 ms the bodies of 32 clients keep
#: everybody waiting for a third of a second.
THREAD_SWITCH_INTERVAL: Final = 0.0005

#: The largest cost of work that the event loop does by itself, in elements: a millisecond's, or
#: three at worst. 64 KiB of plain text have it.
PREDICTION_AT_ONCE: Final = 4096

#: Work waits for a thread at most as long as a container may take to answer.
PREDICTION_TURN_TIMEOUT: Final = 60.0

#: All bodies that are held whole at a time; over it a client gets 503. 85 of the largest fit, and
#: half of them are one address's, or one access key's, at most.
MAX_GATHERED_BYTES: Final = 512 * MIB

#: Between tries to accept when there are no descriptors left; asyncio's own.
ACCEPT_PAUSE: Final = 1.0

#: Connections on the listener, streams included.
MAX_CONNECTIONS: Final = 8192

#: What one address may have of the connections and of the bodies held whole, and one principal of
#: the streams and of the requests, as a divisor:
#: half, so that nobody keeps everybody else out. Half of the connections are 4,096: a proxy that is
#: not known to be one can carry 1,000 streams.
SHARE_OF_ONE: Final = 2

#: Connections beyond all the others for /healthz, /readyz and /metrics, and HTTP/2 streams for the
#: same. A prober and a scraper need one each.
RESERVED_CONNECTIONS: Final = 64
HTTP2_RESERVED_STREAMS: Final = 64

#: What the connections of one address hold of memory, as long as nothing is under way on them that
#: their clients may ask for: then the one goes that is idle for longest. 1,000 TLS handshakes fit.
PEER_BYTES: Final = 48 * MIB

#: What a connection holds that has said nothing yet, or waits for its next request; one of HTTP/2
#: (h2's tables) and one with TLS besides, on uvloop and on asyncio's own loop, whose buffer for TLS
#: has 256 KiB. Measured, on CPython 3.11.
CONNECTION_BYTES: Final = 8 * KIB
HTTP2_CONNECTION_BYTES: Final = 16 * KIB
TLS_CONNECTION_BYTES: Final = 40 * KIB
TLS_CONNECTION_BYTES_ASYNCIO: Final = 264 * KIB

#: What TLS holds for good of its largest read so far, in multiples of its bytes: the buffer that it
#: was read to, and OpenSSL's copy.
TLS_READ_HELD: Final = 3

#: What an HTTP/2 stream holds that waits for its client alone, and an HTTP/1.1 connection whose
#: client takes no response: the requests that one turn brings, and a read behind them.
HTTP2_STREAM_BYTES: Final = 5 * KIB
HTTP1_STUCK_BYTES: Final = 2 * MIB

# --- Who has not shown who they are --------------------------------------------------------------

#: CPU seconds that those at one address may cost at once and, after that, as a share of a core: to
#: refuse what they ask, and to answer what anybody may. With what cannot be measured of it (the
#: kernel's part, bytes that are dropped) they stay under a third of a core.
STRANGER_BURST: Final = 0.2
STRANGER_SHARE: Final = 0.2

#: What can be owed: however long an attack was, its address goes on five seconds after it.
STRANGER_DEBT: Final = 1.0

#: What is drawn for a request beside what its refusal is measured to take: to read its head, make a
#: task of it and write the answer; and for a connection on which nobody came to be known, and one
#: with TLS, which is a key agreement and a signature. CPU seconds, on a core of 2020.
STRANGER_REQUEST: Final = 0.0004
STRANGER_CONNECTION: Final = 0.0004
STRANGER_TLS: Final = 0.0015

#: However long a refusal took, it is drawn as this at most: others may have worked meanwhile.
STRANGER_MOST: Final = 0.02

#: And a turn in which a connection's frames were read, for the same reason: Python's collection of
#: garbage may take a fifth of a second in it. Less than the burst, so that one alone is no fault.
STRANGER_TURN: Final = 0.1

#: Addresses that are remembered, those drawn on last; each holds half a KiB.
STRANGER_ADDRESSES: Final = 4096

# --- The log -------------------------------------------------------------------------------------

#: Lines of one kind and one address that are written in so many seconds; the others are counted in
#: one more (journald takes 10,000 in 30 s from all of a service, and drops the rest) …
REPEATED_LINES: Final = 10
REPEATED_SECONDS: Final = 10.0
#: … and kinds that are told apart, each in some 300 bytes; beyond them all addresses are one.
REPEATED_KINDS: Final = 1024

# --- HTTP/2 --------------------------------------------------------------------------------------

#: What a stream's client may send before it is answered, and once its stream is open. The first is
#: RFC 9113's own; all that wait for their container hold that much at most.
HTTP2_OPENING_WINDOW: Final = 65_535
HTTP2_STREAM_WINDOW: Final = 256 * KIB

#: What all streams of a connection may send together; given back on receipt (clause 2.6-2), so it
#: bounds what is under way and not what is held. 16 MiB is 1.3 Gbit/s at 100 ms.
HTTP2_CONNECTION_WINDOW: Final = 16 * MIB

#: HPACK's table for what we send (RFC 9113 §6.5.2: the size that both begin with), whatever more a
#: client allows.
HTTP2_ENCODER_TABLE: Final = 4096

#: Held back of a client's stream window so that an exception always fits (clause 2.3-6), and the
#: window from which on that is done.
HTTP2_HELD_BACK: Final = 1 * KIB
HTTP2_HOLD_BACK_FROM: Final = 16 * KIB

#: Of streams that were over within a second of their beginning by a reset, no more than half of
#: all, once there were so many (Envoy's premature_reset_* settings).
HTTP2_PREMATURE_SECONDS: Final = 1.0
HTTP2_PREMATURE_AFTER: Final = 500
HTTP2_PREMATURE_SHARE: Final = 0.5

#: Unsent bytes of a connection beyond its high-water mark: answers to pings and settings, window
#: updates and resets, which no back-pressure slows. A client that takes none of them is cut.
HTTP2_MAX_UNSENT: Final = 1 * MIB

#: Streams open on all connections together; more are refused. One that waits for nothing but a
#: client's window holds 5 KiB, its response besides.
HTTP2_MAX_STREAMS_IN_ALL: Final = 4 * MAX_STREAMS

#: A client that has its whole response may go on with its request. What comes is dropped and
#: credited; a reset tells the client to stop when nothing has come for this long (clause 2.3-6: a
#: reset after 1 s hangs SDKs that close later than that) …
HTTP2_LATE_QUIET: Final = 30.0
#: … or when so much has come, as much as the largest part: five minutes of speech at 16 kHz have
#: 9.6 MB …
HTTP2_LATE_BYTES: Final = 16 * MIB
#: … or after this long in all, however little has come (Envoy's stream idle timeout: 5 minutes) …
HTTP2_LATE_TIMEOUT: Final = 300.0
#: … or where there are more such streams: of one connection, never more than half of those that it
#: may have open, and of all connections. They hold 5 KiB each.
HTTP2_LATE_STREAMS: Final = 100
HTTP2_LATE_STREAMS_IN_ALL: Final = MAX_STREAMS
#: A client that had its whole response, an error for one, before it sent any of its body is told
#: to stop this soon: version 0.4 of the Python SDK tells its caller of the error only then.
HTTP2_LATE_QUIET_UNBEGUN: Final = 1.0
#: On a connection that closes this long without a byte is enough: a process that stops has 5 s for
#: it, which ``shutdown_hard`` sees to.
HTTP2_LATE_QUIET_AT_CLOSE: Final = 1.0

#: A connection without a stream closes after this long; one that has never had any, after
#: REQUEST_HEAD_TIMEOUT (nginx: 75 s; Envoy: 1 h).
HTTP2_IDLE_TIMEOUT: Final = 300.0

# --- TLS -----------------------------------------------------------------------------------------

#: A TLS handshake is done within this time of the connection's being accepted (HAProxy's examples
#: give 10 s to all that comes before a request; asyncio would wait 60 s).
TLS_HANDSHAKE_TIMEOUT: Final = 10.0

#: Days that the local CA's certificate is valid (mkcert's: ten years), and those of the gateway's
#: that it signs. Apple's systems refuse the latter over 398 days from a CA they ship, over 825 from
#: another.
CA_VALIDITY_DAYS: Final = 3650
CERTIFICATE_VALIDITY_DAYS: Final = 397

#: Days before its end at which the gateway's certificate is made anew (certbot's margin).
CERTIFICATE_RENEWAL_DAYS: Final = 30

#: A certificate made now is valid from so long ago on, for clients whose clock is behind.
CERTIFICATE_CLOCK_SKEW: Final = 3600.0

#: Names in the local CA's certificate, which only ever grow. A hundred make it 3 KiB, and a
#: handshake with it still fits the first flight of TCP (10 segments, RFC 6928).
MAX_CERTIFICATE_NAMES: Final = 100

#: How often the files of the certificate are looked at, and how often the local CA is asked
#: whether to make a new one. A look is two calls of stat.
CERTIFICATE_CHECK_INTERVAL: Final = 5.0
CERTIFICATE_RENEWAL_INTERVAL: Final = 3600.0

#: Another process that makes certificates in the same directory is waited for this long; it takes
#: milliseconds.
CERTIFICATE_LOCK_TIMEOUT: Final = 10.0

#: Regions whose SageMaker hosts end in ``amazonaws.com`` (clause 2.5-6): those of the partitions
#: ``aws`` and ``aws-us-gov`` in botocore's ``endpoints.json``.
AMAZONAWS_COM_REGION: Final = re.compile(r"(?!cn-)[a-z]{2}(?:-gov)?-[a-z]{1,20}-[0-9]{1,2}")

# --- Ending a stream -----------------------------------------------------------------------------

#: A container that has our Close, and says neither its own nor anything else for so long, has
#: failed (clause 1.5-12).
CLOSE_TIMEOUT: Final = 10.0

#: Silence behind an answer after which nothing more is expected of a container that does not know
#: of the input's end (clause 1.5-12).
DRAIN_TIMEOUT: Final = 3.0

#: Silence of a container whose answer has not come, or that finishes before it answers a Close
#: (clause 1.5-12; an invocation's answer has 60 s too: 1.1-2).
ANSWER_SILENCE: Final = 60.0

# --- Signatures ----------------------------------------------------------------------------------

#: The principals file: 1,024 principals of 256 bytes each fill it. Reading one of that size takes
#: about 50 ms, in which nothing else moves.
MAX_PRINCIPALS_BYTES: Final = 256 * KIB
MAX_PRINCIPALS: Final = 1024

#: Access keys of one principal: each may be tried on an event (clause 2.4-5). IAM allows two at a
#: time; temporary ones come on top.
MAX_KEYS_PER_PRINCIPAL: Final = 8

#: Actions, and resources, of one principal: IAM's managed policies, of 6,144 characters, hold about
#: as many.
MAX_PATTERNS_PER_PRINCIPAL: Final = 128

#: Characters of a bearer token: 16 random ones of 64 are 96 bits.
MIN_TOKEN_CHARACTERS: Final = 16

#: Signatures that are good for one request, remembered as long as they are good: 13 MB, and 200
#: such requests a second.
MAX_USED_SIGNATURES: Final = 65_536

#: How often an open stream's key or token is looked for in the principals file.
STANDING_CHECK_INTERVAL: Final = 5.0

#: The principals file is looked at no more often than this, and only when somebody asks.
PRINCIPALS_CHECK_INTERVAL: Final = 1.0
