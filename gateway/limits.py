"""The limits of the gateway, each with its unit and its precedent.

Limits that an operator may change are defaults: ``partway.gateway.settings.settings`` starts from
them. Sizes are bytes, times are seconds. Further limits are in other modules:

- :mod:`partway.protocol.limits`: both sides of the wire
- :mod:`partway.gateway.fleet.limits`: the fleet
- :mod:`partway.gateway.apis.control.limits`: the control plane
- :mod:`partway.gateway.containers.limits`: requests to containers
"""

from __future__ import annotations

import re
from typing import Final

from partway.protocol import limits
from partway.protocol.limits import KIB, MIB

# --- Bodies of plain requests and responses ------------------------------------------------------

#: For a gathered body to be complete once it is asked for, however slowly it comes. Clause 4-6
#: gives a container 60 s too. With it 6 MiB need 0.9 Mbit/s.
REQUEST_BODY_TIMEOUT: Final = 60.0

#: For the next byte of a streamed body once it is asked for (nginx ``client_body_timeout``: 60 s).
REQUEST_BODY_PAUSE: Final = 60.0

#: For a client to take some of a response; over HTTP/2, enough to make room for more (nginx
#: ``send_timeout``: 60 s).
RESPONSE_TAKEN_TIMEOUT: Final = 60.0

#: Seconds that a cancelled handler of an application waits for its operation to end. Most end at
#: once; a stream waits for its container's Close. The gateway's end gives broken-off requests the
#: same time.
HANDLER_CANCEL_TIMEOUT: Final = 5.0

# --- Settings that change, the start, the admin socket -------------------------------------------

#: Between two checks of the settings file for a change; it is read when two checks agree.
SETTINGS_CHECK_INTERVAL: Final = 1.0

#: Until the gateway reports that it listens even if some endpoint has not settled.
SETTLING_TIMEOUT: Final = 30.0

#: Connections on the admin socket, which only the gateway's own user opens. Fewer of them may read
#: logs, so that one is always free for a question about the fleet.
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_LOG_READERS: Final = 32

#: Instances whose logs are read together: each is an open file, or two while one is rotated.
MAX_LOGS_TOGETHER: Final = 64

#: Between two looks at logs that are followed (``tail -f``: 1 s).
LOG_FOLLOW_INTERVAL: Final = 0.5

#: Last lines of a log that are shown by default, and the maximum.
LOG_LINES: Final = 100
MAX_LOG_LINES: Final = 1_000_000

#: For answers on the admin socket to end when the gateway stops.
ADMIN_CLOSE_TIMEOUT: Final = 2.0

# --- Disks ---------------------------------------------------------------------------------------

#: Free space of a file system that others' bodies, answers and outputs must leave, the smaller of
#: the two. The gateway's own records of requests, endpoints and the like may use it.
DISK_RESERVE: Final = 1 / 20
DISK_RESERVE_BYTES: Final = 256 * MIB

#: Seconds between two tries of a step that the disk refused at the start. Freed room is noticed
#: soon, and a full disk is tried twelve times a minute.
DISK_RETRY_INTERVAL: Final = 5.0

# --- Buffers -------------------------------------------------------------------------------------

#: Bytes of parts that the Python client holds for a caller that does not iterate; then it stops
#: reading.
CLIENT_RECEIVE_HIGH_WATER: Final = 1 * MIB

#: The default maximum of a message that the Python client joins from its parts. It equals that of
#: the container runtime (``container.limits.MAX_MESSAGE_BYTES``).
CLIENT_MAX_MESSAGE: Final = limits.MAX_PART_BYTES

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: Interval of the gateway's pings to a WebSocket client (clause 1.4-4). Proxies cut connections
#: that are idle for 55 s (Heroku) or 60 s (nginx, AWS's Application Load Balancer); one ping may be
#: lost or late.
CLIENT_PING_INTERVAL: Final = 25.0
#: The same for HTTP/2, whose PINGs end at the next proxy and keep nothing open there. TCP probes
#: clients of HTTP/1.1's event streams as often.
HTTP2_PING_INTERVAL: Final = 60.0
#: How many of these pings a client may leave unanswered.
CLIENT_PINGS_UNANSWERED: Final = 2

#: Interval of the Python client's pings to a gateway, and how many may stay unanswered. A gateway
#: whose container takes nothing reads no pings either, and reports that itself after STALL_TIMEOUT.
#: Six unanswered pings take longer.
GATEWAY_PING_INTERVAL: Final = 60.0
GATEWAY_PINGS_UNANSWERED: Final = 6

#: Once a dial to an instance has timed out, TCP's keep-alive asks its host on each open connection.
#: These are the whole seconds between two probes, and the unanswered probes that end the
#: connection.
HOST_PROBE_INTERVAL: Final = 1
HOST_PROBES: Final = 3
#: Keep-alive does not ask while bytes are in flight. Those are given up when the host has
#: acknowledged nothing for this long: more than the three probes take.
HOST_SILENCE: Final = 5.0
#: Connections that are asked in one turn of the loop, at 13 µs each.
HOSTS_PROBED_AT_ONCE: Final = 256

#: Longest life of a stream (clause 1.4-5; AWS quota).
STREAM_LIFETIME: Final = 1800.0

#: Longest life of a response stream, from the head of the container's answer on. AWS's guide,
#: "Inference options": 60 s for a regular response, 8 minutes for one that streams.
RESPONSE_LIFETIME: Final = 480.0

#: Longest life of a request of InvokeEndpoint, from its admission to its answer's last byte. So a
#: slow trickle keeps its place no longer than a response stream.
REQUEST_LIFETIME: Final = 480.0

# --- Opening a stream ----------------------------------------------------------------------------

#: A container accepts a connection within 250 ms (clauses 1.1-2, 4-6).
CONTAINER_CONNECT_TIMEOUT: Final = 0.25

#: Resolving a container's name; the 250 ms above begin after it.
CONTAINER_RESOLVE_TIMEOUT: Final = 5.0

#: For the TLS handshake with a container, after the endpoint's ``connect_timeout`` for the
#: connection. It takes two round trips and a signature.
CONTAINER_TLS_TIMEOUT: Final = 5.0

#: A container answers the upgrade within 60 s (clause 4-6).
CONTAINER_HANDSHAKE_TIMEOUT: Final = 60.0

#: A container answers a request within 60 s (clause 1.1-2), and its answer is never silent for
#: longer.
INVOCATION_TIMEOUT: Final = 60.0

#: For the first bytes of a new connection, which show its protocol: one byte, or the 24 of HTTP/2's
#: preface. (Go's HTTP/2 server also waits 10 s for the preface.) The time for the head begins after
#: it: 70 s at most from the acceptance.
OPENING_TIMEOUT: Final = 10.0

#: How old the page of metrics may be: it costs milliseconds with thousands of open streams.
METRICS_AGE: Final = 1.0

#: Streams open at once on one gateway process; beyond it a client gets 503.
MAX_STREAMS: Final = 4096

#: Requests of InvokeEndpoint under way at once on one gateway process; beyond it a client gets 503.
MAX_REQUESTS: Final = 1024

#: The body of such a request: 6,291,456 bytes (section 5). A signed one is held whole.
MAX_INVOCATION_BODY: Final = 6 * MIB

#: The body of a request for predictions, and of a container's answer to it: 1.5 MB, as on the
#: platform that has such requests.
MAX_PREDICTION_BODY: Final = 3 * MIB // 2

#: Threads that work on predictions. Python code runs on one core at a time, so more would only wait
#: for each other. The second is for other owners while one owner's work takes long.
PREDICTION_THREADS: Final = 2

#: A thread that computes gives the interpreter to the event loop after so many seconds. The loop
#: waits so long at each read and write. With Python's own 5 ms, the bodies of 32 clients make all
#: others wait for a third of a second.
THREAD_SWITCH_INTERVAL: Final = 0.0005

#: The largest cost of work that the event loop does itself, in elements: a millisecond's, or three
#: at worst. 64 KiB of plain text have it.
PREDICTION_AT_ONCE: Final = 4096

#: Work waits for a thread at most as long as a container may take to answer.
PREDICTION_TURN_TIMEOUT: Final = 60.0

#: All gathered bodies at a time; beyond it a client gets 503. 85 of the largest fit, and one
#: address, or one access key, may have half of them.
MAX_GATHERED_BYTES: Final = 512 * MIB

#: Between tries to accept when there are no descriptors left; asyncio's own.
ACCEPT_PAUSE: Final = 1.0

#: Connections on the listener, streams included.
MAX_CONNECTIONS: Final = 8192

#: The share of one owner as a divisor: half, so that no owner locks out all others. It holds for
#: one address (connections, gathered bodies) and one principal (streams, requests). Half of the
#: connections are 4,096: an unknown proxy can carry 1,000 streams.
SHARE_OF_ONE: Final = 2

#: Requests that workers hand on to the gateway process at a time: each takes a descriptor
#: there. Kubernetes' API server bounds them too (``--max-requests-inflight``: 400).
MAX_FORWARDED: Final = 1024

#: Further connections for /healthz, /readyz and /metrics, and HTTP/2 streams for the same. A prober
#: and a scraper need one each.
RESERVED_CONNECTIONS: Final = 64
HTTP2_RESERVED_STREAMS: Final = 64

#: Memory of one address's idle connections; beyond it, the connection that is idle for longest is
#: dropped. 1,000 TLS handshakes fit.
PEER_BYTES: Final = 48 * MIB

#: Memory of an idle connection, and the further memory of HTTP/2 (h2's tables). The last two are
#: the further memory of TLS, on uvloop and on asyncio's own loop, whose buffer for TLS has 256 KiB.
#: Measured, on CPython 3.11.
CONNECTION_BYTES: Final = 8 * KIB
HTTP2_CONNECTION_BYTES: Final = 16 * KIB
TLS_CONNECTION_BYTES: Final = 40 * KIB
TLS_CONNECTION_BYTES_ASYNCIO: Final = 264 * KIB

#: Memory that TLS keeps of its largest read so far, in multiples of its bytes: the read buffer, and
#: OpenSSL's copy.
TLS_READ_HELD: Final = 3

#: Memory of an HTTP/2 stream that waits only for its client. Memory of an HTTP/1.1 connection whose
#: client takes no response: the requests of one turn, and a read after them.
HTTP2_STREAM_BYTES: Final = 5 * KIB
HTTP1_STUCK_BYTES: Final = 2 * MIB

# --- Clients without authentication --------------------------------------------------------------

#: CPU seconds that the unauthenticated clients of one address may cost at once, and then as a share
#: of a core. They pay for refused requests, and for requests that anyone may make. With unmeasured
#: costs (the kernel's part, dropped bytes) they stay under a third of a core.
STRANGER_BURST: Final = 0.2
STRANGER_SHARE: Final = 0.2

#: The largest debt: however long an attack lasts, its address goes on five seconds after it.
STRANGER_DEBT: Final = 1.0

#: Costs in CPU seconds on a core of 2020. A request costs this besides its measured refusal:
#: reading the head, a task, writing the answer. The others are for a connection that stayed
#: unknown, and for TLS (a key agreement and a signature).
STRANGER_REQUEST: Final = 0.0004
STRANGER_CONNECTION: Final = 0.0004
STRANGER_TLS: Final = 0.0015

#: The largest cost of one refusal: others may have worked during a longer one.
STRANGER_MOST: Final = 0.02

#: The same for a turn that read a connection's frames: Python's garbage collection in it may take a
#: fifth of a second. Less than the burst, so that one turn alone is no fault.
STRANGER_TURN: Final = 0.1

#: Remembered addresses, the most recently charged ones; each takes half a KiB.
STRANGER_ADDRESSES: Final = 4096

# --- The log -------------------------------------------------------------------------------------

#: Lines of one kind and one address that are written in so many seconds; one more line counts the
#: others. Precedent: journald takes 10,000 in 30 s from a whole service, and drops the rest. …
REPEATED_LINES: Final = 10
REPEATED_SECONDS: Final = 10.0
#: … and kinds that are told apart, each in some 300 bytes; beyond them all addresses are one.
REPEATED_KINDS: Final = 1024

# --- HTTP/2 --------------------------------------------------------------------------------------

#: A client's credit on a stream: before it is answered, and once its stream is open. The first is
#: RFC 9113's own, and bounds the memory of each stream that waits for its container.
HTTP2_OPENING_WINDOW: Final = 65_535
HTTP2_STREAM_WINDOW: Final = 256 * KIB

#: The credit of all streams of a connection together. It is given back on receipt (clause 2.6-2),
#: so it bounds the bytes under way and not those held. For example, 16 MiB is 1.3 Gbit/s at 100 ms.
HTTP2_CONNECTION_WINDOW: Final = 16 * MIB

#: HPACK's table for our headers (RFC 9113 §6.5.2: the initial size), even if a client allows more.
HTTP2_ENCODER_TABLE: Final = 4096

#: Held back of a client's stream window so that an exception always fits (clause 2.3-6), and the
#: smallest window from which bytes are held back.
HTTP2_HELD_BACK: Final = 1 * KIB
HTTP2_HOLD_BACK_FROM: Final = 16 * KIB

#: Once so many streams have ended, at most this share may have been reset within a second of their
#: beginning (Envoy's premature_reset_* settings).
HTTP2_PREMATURE_SECONDS: Final = 1.0
HTTP2_PREMATURE_AFTER: Final = 500
HTTP2_PREMATURE_SHARE: Final = 0.5

#: Unsent bytes of a connection beyond its high-water mark: answers to pings and settings, window
#: updates and resets, which no back-pressure slows. A client that takes none of them is cut.
HTTP2_MAX_UNSENT: Final = 1 * MIB

#: Streams open on all connections together; more are refused. A stream that waits only for its
#: client's window holds 5 KiB, and its response.
HTTP2_MAX_STREAMS_IN_ALL: Final = 4 * MAX_STREAMS

#: A client that has its whole response may go on with its request. Its bytes are dropped and
#: credited. A reset tells the client to stop when nothing has come for this long. A reset after 1 s
#: hangs SDKs that close later (clause 2.3-6).
HTTP2_LATE_QUIET: Final = 30.0
#: The reset also follows when this much has come, which is the largest part. Five minutes of speech
#: at 16 kHz have 9.6 MB.
HTTP2_LATE_BYTES: Final = 16 * MIB
#: The reset also follows after this long in all (Envoy's stream idle timeout: 5 minutes).
HTTP2_LATE_TIMEOUT: Final = 300.0
#: The reset also follows when there are more such streams on one connection, or on all connections.
#: A connection's limit is also half of the streams that it may have open. Each holds 5 KiB.
HTTP2_LATE_STREAMS: Final = 100
HTTP2_LATE_STREAMS_IN_ALL: Final = MAX_STREAMS
#: The same time for a client that had its whole response before it sent any of its body. Version
#: 0.4 of the Python SDK reports an error to its caller only then.
HTTP2_LATE_QUIET_UNBEGUN: Final = 1.0
#: The same time on a connection that closes: a stopping process has 5 s for it (``shutdown_hard``).
HTTP2_LATE_QUIET_AT_CLOSE: Final = 1.0

#: A connection without a stream closes after this long; one that has never had any, after
#: REQUEST_HEAD_TIMEOUT (nginx: 75 s; Envoy: 1 h).
HTTP2_IDLE_TIMEOUT: Final = 300.0

# --- TLS -----------------------------------------------------------------------------------------

#: For a TLS handshake, from the connection's acceptance (HAProxy's examples give 10 s to everything
#: before a request; asyncio would wait 60 s).
TLS_HANDSHAKE_TIMEOUT: Final = 10.0

#: Days that the local CA's certificate is valid (mkcert's: ten years), and the gateway's that it
#: signs. Apple's systems refuse a server's certificate of over 398 days from a CA they ship, and of
#: over 825 from another.
CA_VALIDITY_DAYS: Final = 3650
CERTIFICATE_VALIDITY_DAYS: Final = 397

#: Days before its end at which the gateway's certificate is made anew (certbot's margin).
CERTIFICATE_RENEWAL_DAYS: Final = 30

#: A new certificate is valid from so many seconds ago, for clients whose clock is behind.
CERTIFICATE_CLOCK_SKEW: Final = 3600.0

#: Names in the local CA's certificate, which only ever grow. A hundred make it 3 KiB, and a
#: handshake with it still fits the first flight of TCP (10 segments, RFC 6928).
MAX_CERTIFICATE_NAMES: Final = 100

#: How often the files of the certificate are checked, and how often the local CA is asked whether
#: to make a new one. A check is two calls of stat.
CERTIFICATE_CHECK_INTERVAL: Final = 5.0
CERTIFICATE_RENEWAL_INTERVAL: Final = 3600.0

#: For another process that makes certificates in the same directory, which takes milliseconds.
CERTIFICATE_LOCK_TIMEOUT: Final = 10.0

#: Regions whose SageMaker hosts end in ``amazonaws.com`` (clause 2.5-6): those of the partitions
#: ``aws`` and ``aws-us-gov`` in botocore's ``endpoints.json``.
AMAZONAWS_COM_REGION: Final = re.compile(r"(?!cn-)[a-z]{2}(?:-gov)?-[a-z]{1,20}-[0-9]{1,2}")

# --- Ending a stream -----------------------------------------------------------------------------

#: A container that has our Close, and sends neither its own nor anything else for so long, has
#: failed (clause 1.5-12).
CLOSE_TIMEOUT: Final = 10.0

#: Silence after an answer, after which no more is expected of a container that does not know of the
#: input's end (clause 1.5-12).
DRAIN_TIMEOUT: Final = 3.0

#: Silence of a container whose answer has not come, or that finishes before it answers a Close
#: (clause 1.5-12). An invocation's answer has 60 s too (1.1-2).
ANSWER_SILENCE: Final = 60.0

# --- Signatures ----------------------------------------------------------------------------------

#: The principals file: 1,024 principals of 256 bytes each fill it. Reading one of that size takes
#: about 50 ms, in which the loop stands still.
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

#: Remembered signatures that are good for one request, while they are valid: 13 MB, and 200 such
#: requests a second.
MAX_USED_SIGNATURES: Final = 65_536

#: How often an open stream's key or token is looked for in the principals file.
STANDING_CHECK_INTERVAL: Final = 5.0

#: The shortest time between two looks at the principals file, which only requests cause.
PRINCIPALS_CHECK_INTERVAL: Final = 1.0
