"""Limits of workers."""

from __future__ import annotations

from typing import Final

#: Workers of a gateway. More than the cores of a machine are of no use.
MAX_WORKERS: Final = 64

#: Bytes of a message. An endpoint with 1,000 instances takes 1.5 MB.
MAX_MESSAGE: Final = 16 * 1024 * 1024

#: Unsent bytes to one process, which reads nothing then.
MAX_UNSENT: Final = 64 * 1024 * 1024

#: Seconds for a worker's process to start, and to accept connections.
START_TIMEOUT: Final = 20.0

#: Seconds for the supervisor to fork a worker: milliseconds pass. The parent's loop waits.
FORK_TIMEOUT: Final = 5.0

#: Entries that the supervisor keeps, each with some descriptors, and bytes of their records. Each
#: of 2,000 containers has two, and each of 64 slots one for its sockets and two for its workers.
MAX_KEPT: Final = 8192
MAX_KEPT_BYTES: Final = 16 * 1024 * 1024

#: Seconds for a worker that outlived its parent to dial the next one.
RELINK_TIMEOUT: Final = 5.0

#: Seconds between two such dials, and for one.
REDIAL_PAUSE: Final = 0.1
DIAL_TIMEOUT: Final = 2.0

#: Seconds for the next parent to come after one that hands over. Requests wait for it, and no
#: request waits longer in the queue of the parent's socket. A client with 20 s gets its 503.
HANDOVER_TIMEOUT: Final = 15.0

#: Messages to the parent that wait as long.
MAX_HELD_MESSAGES: Final = 1024

#: Seconds for the parent's requests under way to end before it hands over.
LEAVE_TIMEOUT: Final = 5.0

#: Seconds for a new version to check its settings.
UPGRADE_CHECK_TIMEOUT: Final = 60.0

#: Seconds between two looks whether a retired worker's clients have gone.
RETIRED_LOOK: Final = 0.25

#: Seconds for an endpoint that workers know to come into the fleet of a new parent.
FOUND_TIMEOUT: Final = 10.0

#: Seconds between two checks of a worker, and for it to answer one. A loop that is held up for
#: longer serves nobody.
CHECK_PAUSE: Final = 5.0
CHECK_TIMEOUT: Final = 10.0

#: Seconds for a worker's process to end after its drain, and after it was killed.
END_TIMEOUT: Final = 5.0
KILL_TIMEOUT: Final = 5.0

#: Seconds that the parent waits for workers longer than their drain may take.
DRAIN_MARGIN: Final = 10.0

#: Seconds from the end of a worker, or of the gateway process, to the start of the next one in its
#: place: at once after the first, longer after each that ended soon.
RESTART_SHORTEST: Final = 0.1
RESTART_LONGEST: Final = 10.0

#: A process that has served for this time counts as good: the next wait is the shortest.
PROVEN_AFTER: Final = 2.0

#: Seconds for the parent to decide about a signature, and for a worker to begin a forwarded request
#: once it is connected, and to take the last of an answer.
FORWARD_TIMEOUT: Final = 5.0

#: Requests for metrics that workers forward at a time, beside those of MAX_FORWARDED.
FORWARDED_RESERVE: Final = 64

#: Bytes of the body of a forwarded request; the parent's operation has a lower limit of its own.
MAX_FORWARDED_BODY: Final = 1024 * 1024 * 1024

#: Seconds for workers to send their metrics; a scrape waits for 10 s.
METRICS_TIMEOUT: Final = 2.0
