"""The limits that only a container has. Sizes are bytes, times are seconds.

Those it shares with the gateway are in :mod:`partway.protocol.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MAX_PART_BYTES, MIB

#: Received bytes a handler has not taken at which its client stops being read, and the level at
#: which it is read again. The same as for unsent bytes: 256 KiB is 50 ms of a 40 Mbit/s stream.
#: Bound per stream: high-water mark + one frame + one socket read.
RECEIVE_HIGH_WATER: Final = 256 * KIB
RECEIVE_LOW_WATER: Final = 64 * KIB

#: Largest message that is put together from its fragments: a frame's limit (clause 1.3-3). Those
#: who read fragments may take messages of any length.
MAX_MESSAGE_BYTES: Final = MAX_PART_BYTES

#: A handler whose input is over says the rest and returns. When it has neither taken nor sent
#: anything for so long, it is cancelled: before the gateway's patience ends (60 s, clause 1.5-12),
#: so that the client hears what the limit was.
FINISH_TIMEOUT: Final = 50.0
FINISH_CHECKS: Final = 10

#: How often a client that is not read, since its handler is behind, is looked for.
PRESENCE_CHECK: Final = 1.0

#: A handler whose stream is over cleans up and returns within this time, or it is cancelled.
HANDLER_GRACE: Final = 5.0

#: Largest body of a request. The most that InvokeEndpoint carries: 25 MB on AWS's newer pages.
MAX_BODY_BYTES: Final = 25 * MIB

#: Handlers that are woken by their input in one turn of the loop: so many, or one in so many of
#: those that wait if that is more. At 20 µs each, a turn of the first takes under a millisecond.
WAKES_PER_TURN: Final = 16
WAKES_PER_TURN_SHARE: Final = 24

#: Bytes of bodies that a model of tables or a script is receiving, or that wait for its workers.
#: Over it clients get 503. The ten largest, each of which keeps a worker for seconds.
MAX_HELD_BODIES: Final = 10 * MAX_BODY_BYTES

#: Numbers that a model of tables answers a body with; a client that asks for more gets 413. As JSON
#: they are some 160 MiB. Without it a record of two bytes could ask for thousands of numbers.
MAX_ANSWER_NUMBERS: Final = 1 << 23

#: What an answer begins with, up to so many bytes, leaves with its head. To copy them takes 5 µs;
#: a write of its own takes the system ten times that, and as much again who reads it.
HEAD_JOINED_UP_TO: Final = 64 * KIB

#: Most time spent waiting for a body. /invocations answers within 60 s (clause 1.1-2), so a body
#: that takes longer has no answer in time.
BODY_TIMEOUT: Final = 60.0

#: Connections the kernel holds until they are accepted. A connection is accepted within 250 ms
#: (clause 1.1-2); one that finds asyncio's 100 places taken tries again after a whole second.
ACCEPT_BACKLOG: Final = 1024

#: At the end of a shutdown a cancelled request may clean up for this long.
CANCEL_GRACE: Final = 0.5

#: For the model to let go of what it has loaded. With the rest of a shutdown this stays below the
#: SIGKILL at 30 s (clause 1.1-1).
UNLOAD_GRACE: Final = 1.5

#: For the model's word on its health. /ping answers within 2 s whatever the model does (1.1-2).
HEALTH_TIMEOUT: Final = 1.5

#: Its word is taken for good for so long: a flood of /ping asks it no more often.
HEALTH_AGE: Final = 1.0

#: Most time from a request's arrival to the head of its answer (clause 1.1-2).
ANSWER_TIMEOUT: Final = 60.0

#: Between two comments in an event stream whose first event has not come. The HTML standard's
#: authoring notes say "every 15 seconds or so", for proxies that cut idle connections.
EVENT_COMMENT_INTERVAL: Final = 15.0

#: For the model to look at a stream that asks to be opened. The gateway waits 60 s for the answer
#: to an upgrade (clause 4-6).
ADMIT_TIMEOUT: Final = 10.0

#: A platform that says nothing for this long is asked by TCP whether it is there; so many questions
#: without an answer, each as long apart, and its streams are lost. Its own pings come every 60 s
#: (clause 1.4-1), and after five without a pong it gives up too.
PLATFORM_SILENCE: Final = 60.0
PLATFORM_PROBES: Final = 5

#: Streams and requests under way in one process; over it a client gets 503. The gateway's limit
#: for streams is the same.
MAX_RUNNING: Final = 4096

#: A handler that keeps the event loop for this long is stopped, and a loop that stood still for
#: that long is spoken of in the log. /ping has 2 s.
BLOCK_LIMIT: Final = 1.0
BLOCK_WARNING: Final = 0.25

#: Jobs that wait for a worker, and the time from asking until a job is done; /invocations has 60 s
#: in all.
QUEUE_LENGTH: Final = 16
JOB_DEADLINE: Final = 60.0

#: Items of a job that its client has not taken; then the worker waits. It goes on when half of
#: them have been taken, so that not every item costs a word to the worker.
ITEMS_HELD: Final = 64

#: What nobody waits for any more may be computed for so long in a worker process, which is then
#: killed and replaced. A generator needs only until its next item.
GIVE_UP_GRACE: Final = 1.0

#: Threads cannot be killed. When each of them has computed for so long what nobody waits for,
#: /ping answers 503, so that the platform replaces the container.
HUNG_AFTER: Final = 30.0

#: Before a worker process that did not get as far as its first job is replaced: doubled each time,
#: up to the limit.
RESTART_DELAY: Final = 1.0
RESTART_DELAY_LIMIT: Final = 60.0

#: For worker processes to be gone once they have been killed, or have closed their pipe.
REAP_TIMEOUT: Final = 1.0

#: Longest traceback that comes out of a worker process, in characters.
MAX_TRACEBACK: Final = 16 * KIB
