"""Every limit that batch transform alone has, named, with its unit and its precedent.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: ``MaxPayloadInMB``: megabytes of a request's body unless the job or the container says otherwise,
#: and the most that either may say; 0 stands for no limit (CreateTransformJob).
PAYLOAD_MB: Final = 6
MAX_PAYLOAD_MB: Final = 100

#: ``MaxConcurrentTransforms``: requests that an instance has at a time unless the job or the
#: container says otherwise; times the payload it must be no more than MAX_PAYLOAD_MB.
CONCURRENT: Final = 1
MAX_CONCURRENT: Final = 10_000

#: ``ModelClientConfig``: for an answer to begin, and between two reads of it; and how often a
#: request is sent again (AWS's ranges and defaults).
INVOCATION_TIMEOUT: Final = 600
MAX_INVOCATION_TIMEOUT: Final = 3600
RETRIES: Final = 3
MAX_RETRIES: Final = 3

#: Characters of a filter of ``DataProcessing``, a JSONPath.
MAX_FILTER: Final = 63

#: A body without a limit of its own whose records have to be seen: as long as the longest with one.
UNLIMITED_RECORD_BYTES: Final = MAX_PAYLOAD_MB * MIB

#: Of a container's ``/execution-parameters``, which has three members.
EXECUTION_PARAMETERS_BYTES: Final = 64 * KIB
EXECUTION_PARAMETERS_TIMEOUT: Final = 30.0

#: Files of one job (ListObjectsV2 has 1,000 on a page: 100 pages).
MAX_FILES: Final = 100_000

#: Of these so many are looked at in one turn of the loop: for leave, a few milliseconds.
FILES_PER_TURN: Final = 1000

#: A ManifestFile, which names them.
MANIFEST_BYTES: Final = 16 * MIB

#: Bytes that are read at a time, and unpacked at a time; and those of answers that are written
#: together.
READ_BYTES: Final = 1 * MIB
WRITE_BYTES: Final = 256 * KIB

#: Threads that read and write files of this machine, and how long one has for a piece of them.
FILE_THREADS: Final = 16
FILE_TIMEOUT: Final = 60.0

#: Files that are under way at a time: those that are small are asked for together.
FILES_AT_ONCE: Final = 16

#: An answer to a request that is held until those before it have come: as long as the longest body.
ANSWER_BYTES: Final = MAX_PAYLOAD_MB * MIB

#: Bodies and answers that are held beyond as many as are asked at a time: so many times as many of
#: them, as long as all together are of no more than these bytes. So one request that is slow holds
#: up none of those behind it at first, and not much memory then.
WAITING_FACTOR: Final = 8
WAITING_BYTES: Final = 16 * MIB

#: Disk space of outputs of the API's jobs that are gathered at a time, before they are put where
#: they belong; one sender has a share of it: eight files of 4 GiB each.
TRANSFORM_QUOTA: Final = 64 * 1024 * MIB

#: Before a request is sent again, and how many times as long each further time: 0.25, 1, 4.
RETRY_PAUSE: Final = 0.25
RETRY_FACTOR: Final = 4

#: For an instance to be there again: as long as one may take to start, and a pause before that.
INSTANCE_TIMEOUT: Final = 600.0

#: For a gateway to accept a connection: it may be far away (curl gives 300 s, browsers 5 and more).
GATEWAY_CONNECT_TIMEOUT: Final = 5.0

#: Of a container's own words in what a failed file is said to have failed of.
FAILURE_BYTES: Final = 2 * KIB
