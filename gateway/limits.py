"""Every limit that the gateway alone has, named, with its unit and its precedent.

Those an operator may change are defaults: ``partway.gateway.settings`` starts from them. Sizes are
bytes, times are seconds. What both sides of the wire share is in :mod:`partway.protocol.limits`.
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

#: A client makes room for more of a response within this time (nginx ``send_timeout``: 60 s).
RESPONSE_TAKEN_TIMEOUT: Final = 60.0

# --- Requests of containers ----------------------------------------------------------------------

#: A container answers a request within 60 s (clause 1.1-2), and its answer is never silent for
#: longer.
INVOCATION_TIMEOUT: Final = 60.0

#: Head of a container's answer, and each chunk's line and trailer in its body (node: 16 KiB).
MAX_ANSWER_HEAD_BYTES: Final = 16 * KIB

#: Bytes of an answer in chunks that are parsed at a time: three thousand chunks of a byte.
ANSWER_TURN_BYTES: Final = 16 * KIB

#: A chunk of an answer up to this is handed on whole, a longer one in pieces.
WHOLE_CHUNK_BYTES: Final = 64 * KIB

#: A connection with a container is kept so long for its next request: gunicorn closes an idle one
#: after 2 s, uvicorn and node after 5; and how many are kept of one container.
CONTAINER_IDLE_TIMEOUT: Final = 1.5
MAX_IDLE_OF_CONTAINER: Final = 64

# --- Processes of containers ---------------------------------------------------------------------

#: A container that is not ready this long after its start has failed to launch (clause 1.1-3:
#: eight minutes).
START_TIMEOUT: Final = 480.0

#: From SIGTERM to SIGKILL (clause 1.1-1).
STOP_GRACE: Final = 30.0

#: For an answer to ``/ping`` (clause 1.1-2).
PING_TIMEOUT: Final = 2.0

#: Endpoints that are pinged at a time when the gateway starts.
PINGS_AT_ONCE: Final = 16

#: Between two pings of an instance in service (Kubernetes ``periodSeconds``: 10 s), and how many
#: in a row without 200 take it out of rotation (Kubernetes ``failureThreshold``: 3).
HEALTH_PING_INTERVAL: Final = 10.0
HEALTH_PINGS_MISSED: Final = 3

#: For what is open on an instance that is to stop, to end by itself (an AWS load balancer's
#: deregistration delay: 300 s; a stream lives 1,800 at most, clause 1.4-5).
INSTANCE_DRAIN_TIMEOUT: Final = 300.0

#: Then what is still open is told to end, and has so long for its last bytes.
CUT_TIMEOUT: Final = 5.0

#: An instance that a connection has just failed with is pinged at once, unless its last ping is not
#: as old as this: whoever can make connections fail is not to make pings.
EXTRA_PING_AFTER: Final = 1.0

#: The first wait before an instance is started in the place of one that failed, and the longest;
#: each is twice the one before (Kubernetes ``CrashLoopBackOff``: 10 s to 5 min).
RESTART_SHORTEST: Final = 0.5
RESTART_LONGEST: Final = 60.0

#: Starts in a row that do not bring an instance into service, or not for long, after which no more
#: are tried: the waits between them are five minutes in all.
STARTS_IN_VAIN: Final = 12

#: An instance that has been in service for so long has proved itself: if it fails then, the waits
#: begin anew.
PROVEN_AFTER: Final = 60.0

#: Lines of what an instance has printed last that are told with its failure.
LAST_LINES: Final = 20

#: Characters of each of them.
LAST_LINE_CHARACTERS: Final = 500

#: What is kept of an instance's output for them.
LAST_OUTPUT_BYTES: Final = 32 * KIB

#: An instance's log in the data directory, from which on a new one is begun; the one before is kept
#: (the kubelet's ``containerLogMaxSize``: 10 MiB, of which it keeps five).
OUTPUT_FILE_BYTES: Final = 5 * MIB

#: Instances whose logs are kept after their end, those that wrote last.
OUTPUTS_KEPT: Final = 50

#: What is printed is written together so much later, or as soon as so much of one instance waits.
OUTPUT_FLUSH_INTERVAL: Final = 0.1
OUTPUT_FLUSH_BYTES: Final = 64 * KIB

#: Of an instance's output so much waits for the disk; what comes beyond that is left out.
OUTPUT_WAITING_BYTES: Final = 512 * KIB

#: What an instance may print at once, less than may wait for the disk, and in each second from then
#: on: ten thousand lines. One that prints more waits for its output to be taken (journald takes
#: 10,000 lines in 30 s, and drops the rest).
OUTPUT_BURST: Final = 256 * KIB
OUTPUT_RATE: Final = 1 * MIB

#: When the gateway stops, the last of all output is waited for by this time.
OUTPUT_CLOSE_TIMEOUT: Final = 5.0

#: Session ids whose instance is remembered, of one endpoint.
STICKY_SESSIONS: Final = 65_536

#: Instances of one variant, of which none is far to choose; a variant's instances on the platform
#: number 20 at first.
MAX_INSTANCES: Final = 1000

#: Variants of one endpoint (``ProductionVariants`` of AWS's service model: 10).
MAX_VARIANTS: Final = 10

#: GPUs of one instance (the platform's largest have 16).
MAX_GPUS: Final = 64

#: Between two looks at whether the file of settings is another; it is read when two have found the
#: same.
SETTINGS_CHECK_INTERVAL: Final = 1.0

#: Until the gateway says that it listens though not every endpoint is settled.
SETTLING_TIMEOUT: Final = 30.0

#: For the TLS of a container's connection, once that is accepted, for which the endpoint's
#: ``connect_timeout`` is: two round trips and a signature, where a stream's cleartext has one.
CONTAINER_TLS_TIMEOUT: Final = 5.0

#: Connections on the admin socket, which only the gateway's own user opens; and how many of them
#: may read logs, so that there is always one that can ask how the fleet is.
MAX_ADMIN_CONNECTIONS: Final = 64
MAX_LOG_READERS: Final = 32

#: Instances whose logs are read together: each is an open file, or two while one is rotated.
MAX_LOGS_TOGETHER: Final = 64

#: Between two looks at logs that are followed (``tail -f``: 1 s).
LOG_FOLLOW_INTERVAL: Final = 0.5

#: The longest line of a log that is passed on in one piece (journald's ``LineMax``: 48 KiB).
MAX_LOG_LINE: Final = 64 * KIB

#: Lines of a log that are shown, from the last one back, unless the caller says how many; and how
#: many may be asked for.
LOG_LINES: Final = 100
MAX_LOG_LINES: Final = 1_000_000

#: For what is answered on the admin socket when the gateway stops.
ADMIN_CLOSE_TIMEOUT: Final = 2.0

#: A container that starts is pinged again after this share of the time that its start has taken so
#: far, so that readiness is seen at most that much late; but neither more nor less often than this.
#: One that takes the whole eight minutes gets about 150 pings.
STARTUP_PING_SHARE: Final = 0.1
STARTUP_PING_SHORTEST: Final = 0.05
STARTUP_PING_LONGEST: Final = 5.0

#: From SIGKILL to the process's end, which takes milliseconds, unless the system refuses the signal
#: (a setuid program that has become another user's) or the process hangs in a system call. Docker
#: waits 10 s for it.
KILL_TIMEOUT: Final = 5.0

#: From a container's end until all that it has printed is read, should something that has left its
#: process group hold its output open.
LAST_OUTPUT_TIMEOUT: Final = 1.0

#: For the list of this machine's GPUs: ``nvidia-smi`` takes seconds where the driver is not kept
#: loaded.
GPU_LIST_TIMEOUT: Final = 15.0

#: For the leash's shell to end, which looks at all processes twice at most: each look takes
#: milliseconds, on a busy machine with thousands of processes more.
LEASH_TIMEOUT: Final = 3.0

# --- Files at s3:// ------------------------------------------------------------------------------

#: For a connection (botocore waits 60 s; a name that leads nowhere is to be heard of).
OBJECT_CONNECT_TIMEOUT: Final = 5.0

#: Nothing comes for so long, with all tries that are made meanwhile (botocore ``read_timeout``).
OBJECT_PAUSE: Final = 60.0

#: Tries after the first, for a connection, an answer of 5xx or a body that was cut (botocore's
#: mode ``standard`` has two more).
OBJECT_RETRIES: Final = 2

#: Bytes of a body that are handed on at least, but for its end: 64 KiB in OBJECT_PAUSE are 1 KB/s.
OBJECT_PIECE: Final = 64 * KIB

#: Files of a prefix that are read at a time (boto3's transfers: 10, each of 8 MiB; here each holds
#: 1 MiB).
OBJECTS_AT_ONCE: Final = 4

# --- Model data ----------------------------------------------------------------------------------

#: Disk space of all model data that is unpacked or downloaded at a time; twice the 30 GB that an
#: instance of the platform's has for its model where nobody asks for more.
MODEL_DATA_QUOTA: Final = 64 * 1024 * MIB

#: Files, folders and links of one archive or prefix; an environment of Python's with PyTorch has
#: 30,000.
MODEL_DATA_FILES: Final = 100_000

#: Bytes of one name in an archive; the system's bound is 4,096 for the whole path (Linux).
MODEL_DATA_PATH: Final = 1 * KIB

#: Folders within one another, which are removed with a descriptor open for each.
MODEL_DATA_DEPTH: Final = 64

#: Bytes of a member's pax records, and of all of them in an archive.
MODEL_DATA_RECORDS: Final = 16 * KIB
MODEL_DATA_RECORDS_IN_ALL: Final = 64 * MIB

#: An archive holds no more than so many times its own bytes, once that is more than so much: gzip
#: packs zeros 1,000 to 1, weights seldom 2 to 1.
MODEL_DATA_RATIO: Final = 100
MODEL_DATA_RATIO_FROM: Final = 256 * MIB

#: What a file is counted as beside its content, which is counted in blocks of as much (ext4).
MODEL_DATA_BLOCK: Final = 4 * KIB

#: To download and unpack (the platform's ``ModelDataDownloadTimeoutInSeconds`` is 3,600 at most).
MODEL_DATA_TIMEOUT: Final = 3600.0

#: Model data that is fetched and unpacked at a time; each keeps a core busy.
MODEL_DATA_AT_ONCE: Final = 2

#: To look at what model data is given on this machine: a file system that answers does so at once.
MODEL_DATA_LOOK_TIMEOUT: Final = 30.0

#: To list what a prefix holds: 100 answers of 1,000 keys, each within 3 s.
MODEL_DATA_LIST_TIMEOUT: Final = 300.0

#: To lock the folder of model data, and to remove what a gateway that is gone has left in it.
MODEL_DATA_TAKE_OVER_TIMEOUT: Final = 300.0

#: Threads that work on files at a time, with those that hang and have been left behind; each has
#: its stack (8 MiB of addresses, 16 KiB of memory).
MODEL_DATA_THREADS: Final = 256

#: For a thread that works on files to see that it is not wanted any more.
MODEL_DATA_STOP_TIMEOUT: Final = 5.0

# --- A container engine --------------------------------------------------------------------------

#: For an answer of the engine, to whatever has one at once (docker-py's default).
ENGINE_TIMEOUT: Final = 60.0

#: What is asked of the engine at a time; pulls and what lasts as long as a container come on top.
ENGINE_REQUESTS: Final = 16

#: An answer of the engine that is read whole: a list of 2,000 containers.
MAX_ENGINE_ANSWER: Final = 4 * MIB

#: For an image to be pulled, and for its pull to say anything new (Kubernetes gave the latter a
#: minute, ``image-pull-progress-deadline``; Podman says little while it unpacks a layer).
PULL_TIMEOUT: Final = 1800.0
PULL_SILENCE: Final = 300.0

#: The first wait before an engine that went away is asked again, and the longest; each is twice
#: the one before.
ENGINE_RETRY_SHORTEST: Final = 0.1
ENGINE_RETRY_LONGEST: Final = 5.0

#: How often an engine is asked to remove a container that it refuses to remove: over four minutes.
ENGINE_REMOVAL_TRIES: Final = 50

#: A gateway that stops waits so long for the next of its containers to be removed: longer than the
#: longest wait before the engine is asked again.
ENGINE_REMOVAL_TIMEOUT: Final = 10.0

#: For the removal of what a gateway that was killed has left to its engine, when the next starts.
LEFTOVERS_TIMEOUT: Final = 300.0

#: What the engine keeps of a container's output, in files of so many bytes.
ENGINE_LOG_BYTES: Final = 8 * MIB
ENGINE_LOG_FILES: Final = 2

#: One entry of that output, which comes in pieces beyond it: Docker's have 16 KiB and a time.
ENGINE_LOG_ENTRY: Final = 64 * KIB

# --- Buffers -------------------------------------------------------------------------------------

#: Most bytes one socket read brings: asyncio reads up to 256 KiB at once, uvloop 64 KiB.
MAX_SOCKET_READ: Final = 256 * KIB

#: Part bytes the Python client holds for a caller that does not iterate; then it stops reading.
CLIENT_RECEIVE_HIGH_WATER: Final = 1 * MIB

#: Largest message that the Python client joins from its parts, unless its caller says otherwise: as
#: large as the runtime of containers joins them (``container.limits.MAX_MESSAGE_BYTES``).
CLIENT_MAX_MESSAGE: Final = limits.MAX_PART_BYTES

# --- Liveness, progress, lifetime ----------------------------------------------------------------

#: Interval of the gateway's pings to a container, and how many may stay unanswered (clause 1.4-1).
CONTAINER_PING_INTERVAL: Final = 60.0
CONTAINER_PINGS_UNANSWERED: Final = 5

#: Interval of the gateway's pings to a client, and how many may stay unanswered (clause 1.4-4).
CLIENT_PING_INTERVAL: Final = 60.0
CLIENT_PINGS_UNANSWERED: Final = 2

#: Interval of the Python client's pings to a gateway, and how many may stay unanswered. A gateway
#: whose container takes nothing reads nothing, pings neither, and says so itself after
#: STALL_TIMEOUT: 6 unanswered come later.
GATEWAY_PING_INTERVAL: Final = 60.0
GATEWAY_PINGS_UNANSWERED: Final = 6

#: How often a ping that the socket has not taken yet is looked at again (clause 1.4-2).
PING_FLUSH_CHECK: Final = 1.0

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

#: The gateway looks first at what a new connection speaks; that shows in its first byte, or in the
#: 24 of HTTP/2's preface, and comes within this time (Go's HTTP/2 server waits 10 s for the preface
#: too). The time for the head begins after it: 70 s at most from being accepted.
OPENING_TIMEOUT: Final = 10.0

#: Bytes of HTTP/1.1 parsed before other connections have their turn: a chunk may be of six of them,
#: and a read brings a quarter of a megabyte.
HTTP1_BYTES_PER_TURN: Final = 4 * KIB

#: How old the page of metrics may be: it costs milliseconds where thousands of streams are open.
METRICS_AGE: Final = 1.0

#: Streams open at once on one gateway process; over it a client gets 503.
MAX_STREAMS: Final = 4096

#: Between tries to accept when there are no descriptors left; asyncio's own.
ACCEPT_PAUSE: Final = 1.0

#: Connections on the listener, streams included.
MAX_CONNECTIONS: Final = 8192

#: What one address may have of the connections, and one principal of the streams, as a divisor:
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
#: client takes no response: as many requests behind it as aiohttp parses (32), and a read.
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

#: Characters of a bearer token: 16 random ones of 64 are 96 bits.
MIN_TOKEN_CHARACTERS: Final = 16

#: Signatures that are good for one request, remembered as long as they are good: 13 MB, and 200
#: such requests a second.
MAX_USED_SIGNATURES: Final = 65_536

#: How often an open stream's key or token is looked for in the principals file.
STANDING_CHECK_INTERVAL: Final = 5.0

#: The principals file is looked at no more often than this, and only when somebody asks.
PRINCIPALS_CHECK_INTERVAL: Final = 1.0
