"""The limits of asynchronous requests, named, with units and precedents.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: A body in the request itself (AWS's service model: ``AsyncBodyBlob``). It is stored as an
#: attachment, whose limit is as large (``MAX_ATTACHMENT_BYTES``).
INLINE_BYTES: Final = 128_000

#: An input at a location, and an answer (AWS's asynchronous inference takes 1 GB).
INPUT_BYTES: Final = 1024 * MIB
ANSWER_BYTES: Final = 1024 * MIB

#: The part of an answer that stays in memory; a longer answer goes to disk in pieces of this size.
PIECE_BYTES: Final = 1 * MIB

#: Default seconds that a request may wait, and that one try may take (AWS's defaults).
REQUEST_TTL: Final = 21_600.0
ATTEMPT_TIMEOUT: Final = 900.0

#: Accepted requests that have not ended, by default and at most. One endpoint and one principal
#: have a share each. A store has 10,000 records of a kind.
WAITING_REQUESTS: Final = 5000
MOST_WAITING: Final = 9000

#: Disk space of bodies and answers, and the share of one endpoint and of one sender. The last share
#: is reserved for bodies (5,000 bodies have 640 MB at most).
SPOOL_QUOTA: Final = 8 * 1024 * MIB
SPOOL_SHARE: Final = 1 / 2
SPOOL_OF_BODIES: Final = 1 / 8

#: Requests in progress: of all, and of one endpoint or one sender. The last number is for senders
#: without a request in progress, or for such endpoints where senders have no names: an endpoint may
#: be silent for an hour. Each request holds a piece of its input and one of its answer.
AT_ONCE: Final = 64
AT_ONCE_OF_ONE: Final = 32
FIRST_AT_ONCE: Final = 16

#: Requests that one instance has at a time, unless ``MaxConcurrentInvocationsPerInstance`` is set:
#: as many as small Python servers have threads (gunicorn's examples: 2 to 4).
PER_INSTANCE: Final = 4

#: Tries of a request, and the pauses between them. AWS's pages promise retries, and no number.
TRIES: Final = 3
TRY_PAUSES: Final = (2.0, 10.0)

#: Tries to store an answer or a failure report, and the pauses between them. The model is not
#: called again for these.
PUT_TRIES: Final = 4
PUT_PAUSES: Final = (1.0, 5.0, 25.0)

#: Seconds between two attempts to get a thread of the folder, when all are taken; and the limit of
#: these attempts, which count as no try.
PUT_TURN_INTERVAL: Final = 5.0
PUT_TURN_TIMEOUT: Final = 600.0

#: Failure reports that are stored at a time, beside the requests in progress.
ENDINGS_AT_ONCE: Final = 16

#: Seconds between two checks of waiting requests: for expiry, deleted endpoints and new instances.
LOOK_INTERVAL: Final = 1.0

#: Changes of the journal in one transaction; a disk takes little longer for all than for one. With
#: bodies they have 32 MB.
JOURNAL_BATCH: Final = 256

#: Seconds until a change that must be written is retried.
JOURNAL_RETRY_INTERVAL: Final = 5.0

#: Seconds for the store to accept a request; after that the request is refused.
JOURNAL_WRITE_TIMEOUT: Final = 30.0

#: Seconds for the journal's remaining changes when the gateway stops.
JOURNAL_END_TIMEOUT: Final = 5.0

#: Seconds to remove the files of ended requests when the gateway stops.
FILES_END_TIMEOUT: Final = 5.0

#: Threads for the spool; and threads for each folder of callers, separately for reading and
#: writing. A dead mount takes only its own threads.
SPOOL_THREADS: Final = 8
FOLDER_THREADS: Final = 4

#: Seconds for a file system to answer.
FILE_TIMEOUT: Final = 30.0

#: Bytes of a container's own words in a failure report.
FAILURE_BYTES: Final = 64 * KIB

#: Notices that wait for delivery.
NOTICES: Final = 5000
#: Notices of one topic that wait, and that are sent at a time: a topic that does not answer delays
#: no other. Then the tries of a notice, the pauses between them, and the seconds for an answer
#: (SNS: three tries at once and more after them, within an hour; 15 s).
NOTICES_OF_ONE: Final = NOTICES // 2
NOTICES_AT_ONCE: Final = 2
NOTICE_TRIES: Final = 5
NOTICE_PAUSES: Final = (1.0, 5.0, 25.0, 125.0)
NOTICE_TIMEOUT: Final = 15.0
