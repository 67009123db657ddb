"""Every limit that asynchronous requests alone have, named, with its unit and its precedent.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: A body that comes with the request itself (AWS's service model: ``AsyncBodyBlob``); it is in the
#: store, which takes as much with a record (``MAX_ATTACHMENT_BYTES``).
INLINE_BYTES: Final = 128_000

#: An input at a location, and an answer (AWS's asynchronous inference takes 1 GB).
INPUT_BYTES: Final = 1024 * MIB
ANSWER_BYTES: Final = 1024 * MIB

#: Of an answer that stays in memory; a longer one goes to the disk, in pieces of as much.
PIECE_BYTES: Final = 1 * MIB

#: How long a request may wait, unless it says so, and how long one may be worked on (AWS's
#: defaults).
REQUEST_TTL: Final = 21_600.0
ATTEMPT_TIMEOUT: Final = 900.0

#: Requests that have been taken and have not come to their end; one endpoint, and one principal,
#: have no more than a share of them. A store has 10,000 records of a kind.
WAITING_REQUESTS: Final = 5000
MOST_WAITING: Final = 9000

#: Disk space of bodies and answers; the part of it that one endpoint has, and one sender; the part
#: that answers leave to bodies (5,000 bodies have 640 MB at most).
SPOOL_QUOTA: Final = 8 * 1024 * MIB
SPOOL_SHARE: Final = 1 / 2
SPOOL_OF_BODIES: Final = 1 / 8

#: Requests that are worked on at a time; those of one endpoint, and of one sender; and how many
#: more there may be of senders, or endpoints where nobody is asked who they are, that have none: an
#: endpoint may be silent for an hour. Each holds a piece of its input and one of its answer.
AT_ONCE: Final = 64
AT_ONCE_OF_ONE: Final = 32
FIRST_AT_ONCE: Final = 16

#: Requests that one instance has at a time, where ``MaxConcurrentInvocationsPerInstance`` does not
#: say how many: as many threads as small servers of Python's have (gunicorn's examples: 2 to 4).
PER_INSTANCE: Final = 4

#: How often a request is tried, and how long it waits before each further time. AWS's pages promise
#: retries, and no number.
TRIES: Final = 3
TRY_PAUSES: Final = (2.0, 10.0)

#: How often an answer, or why there is none, is put where it belongs, and the pauses between. The
#: model is not asked again for that.
PUT_TRIES: Final = 4
PUT_PAUSES: Final = (1.0, 5.0, 25.0)

#: Until it is asked again for a thread that may put an answer away, where all of its folder's are
#: taken, and how long that goes on before it is not put there; no try is counted meanwhile.
PUT_TURN_INTERVAL: Final = 5.0
PUT_TURN_TIMEOUT: Final = 600.0

#: Ends of requests that are put away at a time, beside those that are worked on.
ENDINGS_AT_ONCE: Final = 16

#: How often it is looked which requests have waited for too long, whose endpoint has gone, or has
#: instances again.
LOOK_INTERVAL: Final = 1.0

#: Changes of the journal in one transaction; a disk takes little longer for all than for one. With
#: bodies they have 32 MB.
JOURNAL_BATCH: Final = 256

#: Until a change that must be made is tried again where the store does not take it.
JOURNAL_RETRY_INTERVAL: Final = 5.0

#: For the store to take a request, which is not taken otherwise.
JOURNAL_WRITE_TIMEOUT: Final = 30.0

#: For what is left of the journal when the gateway stops.
JOURNAL_END_TIMEOUT: Final = 5.0

#: For the answers of what has ended to be removed, when the gateway stops.
FILES_END_TIMEOUT: Final = 5.0

#: Threads that work on the spool; that read below one of callers' folders, and that write below
#: one: a mount that is dead takes these alone.
SPOOL_THREADS: Final = 8
FOLDER_THREADS: Final = 4

#: For a file system to answer.
FILE_TIMEOUT: Final = 30.0

#: Of a container's own words in a failure's object.
FAILURE_BYTES: Final = 64 * KIB

#: Notices that wait to be delivered; each is tried so often, with these pauses, and has so long for
#: its answer (SNS: three tries at once and more behind them, within an hour; 15 s).
NOTICES: Final = 5000
#: … those of one topic, and how many it has sent at a time: one that does not answer holds up none
#: but its own.
NOTICES_OF_ONE: Final = NOTICES // 2
NOTICES_AT_ONCE: Final = 2
NOTICE_TRIES: Final = 5
NOTICE_PAUSES: Final = (1.0, 5.0, 25.0, 125.0)
NOTICE_TIMEOUT: Final = 15.0
