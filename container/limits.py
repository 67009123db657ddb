"""The limits that only a container has. Sizes are bytes, times are seconds.

The limits shared with the gateway are in :mod:`partway.protocol.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MAX_PART_BYTES, MIB

#: Received bytes that a handler has not taken. Reading from its client stops at the first level,
#: and goes on at the second. The same levels apply to unsent bytes: 256 KiB is 50 ms of a 40
#: Mbit/s stream. Bound per stream: high-water mark + one frame + one socket read.
RECEIVE_HIGH_WATER: Final = 256 * KIB
RECEIVE_LOW_WATER: Final = 64 * KIB

#: Largest message that is joined from fragments: the limit of a frame (clause 1.3-3). A handler
#: that reads fragments may take messages of any length.
MAX_MESSAGE_BYTES: Final = MAX_PART_BYTES

#: After the end of its input a handler sends its remaining output and returns. If it neither takes
#: nor sends anything for this long, it is cancelled. That is before the gateway's own limit (60 s,
#: clause 1.5-12), so that the client is told the reason.
FINISH_TIMEOUT: Final = 50.0
FINISH_CHECKS: Final = 10

#: Seconds between two checks for a client that is not read because its handler is behind.
PRESENCE_CHECK: Final = 1.0

#: After its stream's end a handler must clean up and return within this time, or it is cancelled.
HANDLER_GRACE: Final = 5.0

#: Time for a session's closed(), after everything else of its stream. It ends before a cancelled
#: handler counts as one that ignores its cancellation (HANDLER_GRACE).
SESSION_CLOSED_TIMEOUT: Final = 2.0

#: Largest body of a request. The most that InvokeEndpoint carries: 25 MB on AWS's newer pages.
MAX_BODY_BYTES: Final = 25 * MIB

#: Handlers woken by their input in one turn of the loop: WAKES_PER_TURN of them, or a share of the
#: waiting ones if that is more. At 20 µs each, sixteen take under a millisecond.
WAKES_PER_TURN: Final = 16
WAKES_PER_TURN_SHARE: Final = 24

#: Bytes of all bodies that a model of tables or a script is receiving or that wait for its workers,
#: and of forms with audio. Above it clients get 503. It allows ten of the largest bodies, each of
#: which takes a worker seconds.
MAX_HELD_BODIES: Final = 10 * MAX_BODY_BYTES

#: Most numbers in an answer of a model of tables; a client that asks for more gets 413. As JSON
#: they take some 160 MiB. Without the limit a record of two bytes could ask for thousands of
#: numbers.
MAX_ANSWER_NUMBERS: Final = 1 << 23

#: The first piece of an answer is sent in one write with its head, up to this size. Copying it
#: takes 5 µs. A second write takes the system ten times that, and the reader as much again.
HEAD_JOINED_UP_TO: Final = 64 * KIB

#: Longest time spent waiting for a body. /invocations answers within 60 s (clause 1.1-2), so a body
#: that takes longer has no answer in time.
BODY_TIMEOUT: Final = 60.0

#: Connections the kernel holds until they are accepted. A connection is accepted within 250 ms
#: (clause 1.1-2). asyncio's default is 100, and a client that finds the queue full retries after a
#: second.
ACCEPT_BACKLOG: Final = 1024

#: At the end of a shutdown a cancelled request may clean up for this long.
CANCEL_GRACE: Final = 0.5

#: Time for the model to release its resources. With the rest of a shutdown it stays below the
#: SIGKILL at 30 s (clause 1.1-1).
UNLOAD_GRACE: Final = 1.5

#: Time for the model to report its health. /ping answers within 2 s regardless of the model
#: (1.1-2).
HEALTH_TIMEOUT: Final = 1.5

#: Time for which a report of health is valid: a flood of /ping asks the model no more often.
HEALTH_AGE: Final = 1.0

#: Time for a page of metrics; Prometheus gives a scrape 10 s.
METRICS_TIMEOUT: Final = 5.0

#: Longest time from a request's arrival to the head of its answer (clause 1.1-2).
ANSWER_TIMEOUT: Final = 60.0

#: Time between two comments in an event stream whose first event has not come. The HTML standard's
#: authoring notes say "every 15 seconds or so", for proxies that cut idle connections.
EVENT_COMMENT_INTERVAL: Final = 15.0

#: Time for the model to check a stream before it is opened. The gateway waits 60 s for the answer
#: to an upgrade (clause 4-6).
ADMIT_TIMEOUT: Final = 10.0

#: A platform that is silent for this long is probed by TCP keepalive. After PLATFORM_PROBES
#: unanswered probes, each as long apart, its streams are lost. Its own pings come every 60 s
#: (clause 1.4-1), and after five without a pong it gives up too.
PLATFORM_SILENCE: Final = 60.0
PLATFORM_PROBES: Final = 5

#: For a bridge's connection to its upstream, TLS included. The upstream is mostly on this machine.
#: A TCP handshake whose first packet was lost takes a second.
UPSTREAM_CONNECT_TIMEOUT: Final = 5.0

#: For an upstream's answer to the upgrade. It is shorter than the gateway's own limit (60 s, clause
#: 4-6), so that the client is told the reason.
UPSTREAM_HANDSHAKE_TIMEOUT: Final = 50.0

#: For a request to an upstream's health URL, from the connection to the answer's head. It is below
#: HEALTH_TIMEOUT, so that /ping names the upstream.
UPSTREAM_HEALTH_TIMEOUT: Final = 1.3

#: Pause between two such requests while the upstream starts.
UPSTREAM_START_CHECK: Final = 0.25

#: Streams and requests under way in one process; above it a client gets 503. The gateway's limit
#: for streams is the same.
MAX_RUNNING: Final = 4096

#: A handler that blocks the event loop for this long is stopped, and the log reports a loop that
#: was blocked for this long. /ping has 2 s.
BLOCK_LIMIT: Final = 1.0
BLOCK_WARNING: Final = 0.25

#: Jobs that may wait for a worker, and the longest time from asking to the end of a job;
#: /invocations has 60 s in all.
QUEUE_LENGTH: Final = 16
JOB_DEADLINE: Final = 60.0

#: Items of a job that its client has not taken, before the worker waits. The worker continues when
#: half of them are taken, so that not every item needs a message.
ITEMS_HELD: Final = 64

#: Time for which a worker process may compute a job that nobody waits for. Then it is killed and
#: replaced. A generator only has to reach its next item.
GIVE_UP_GRACE: Final = 1.0

#: Threads cannot be killed. When each of them has run an abandoned job for this long, /ping
#: answers 503, so that the platform replaces the container.
HUNG_AFTER: Final = 30.0

#: Delay before a worker process that did not reach its first job is replaced: doubled each time, up
#: to the limit.
RESTART_DELAY: Final = 1.0
RESTART_DELAY_LIMIT: Final = 60.0

#: Time for worker processes to disappear after they were killed or have closed their pipe.
REAP_TIMEOUT: Final = 1.0

#: Longest traceback from a worker process, in characters.
MAX_TRACEBACK: Final = 16 * KIB
