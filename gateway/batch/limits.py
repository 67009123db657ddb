"""The limits of batch transform, named, with units and precedents.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: ``MaxPayloadInMB``: megabytes of a request's body, by default and at most; 0 stands for no limit
#: (CreateTransformJob).
PAYLOAD_MB: Final = 6
MAX_PAYLOAD_MB: Final = 100

#: ``MaxConcurrentTransforms``: concurrent requests of an instance, unless the job or the container
#: says otherwise. The number times the payload is at most MAX_PAYLOAD_MB.
CONCURRENT: Final = 1
MAX_CONCURRENT: Final = 10_000

#: ``ModelClientConfig``: seconds for an answer to begin, and between two reads; and the number of
#: retries (AWS's ranges and defaults).
INVOCATION_TIMEOUT: Final = 600
MAX_INVOCATION_TIMEOUT: Final = 3600
RETRIES: Final = 3
MAX_RETRIES: Final = 3

#: Characters of a ``DataProcessing`` filter, a JSONPath.
MAX_FILTER: Final = 63

#: A body without a limit whose records are parsed: as long as the longest body with a limit.
UNLIMITED_RECORD_BYTES: Final = MAX_PAYLOAD_MB * MIB

#: Bytes of a container's ``/execution-parameters``, which has three members.
EXECUTION_PARAMETERS_BYTES: Final = 64 * KIB
EXECUTION_PARAMETERS_TIMEOUT: Final = 30.0

#: Files of one job (ListObjectsV2 has 1,000 on a page: 100 pages).
MAX_FILES: Final = 100_000

#: Files whose permission is checked in one turn of the event loop: a few milliseconds.
FILES_PER_TURN: Final = 1000

#: Bytes of a ManifestFile.
MANIFEST_BYTES: Final = 16 * MIB

#: Bytes that are read at a time, decompressed at a time, and written at a time.
READ_BYTES: Final = 1 * MIB
WRITE_BYTES: Final = 256 * KIB

#: Threads that read and write files of this machine, and the seconds for one piece of work.
FILE_THREADS: Final = 16
FILE_TIMEOUT: Final = 60.0

#: Files in flight at a time, so that the requests of small files run concurrently.
FILES_AT_ONCE: Final = 16

#: Bytes of an answer that waits for earlier answers: as long as the longest body.
ANSWER_BYTES: Final = MAX_PAYLOAD_MB * MIB

#: Bodies and answers in memory: at most this many times the concurrent requests, and no more than
#: the concurrent requests once all have this many bytes. A slow request holds up those behind it
#: only then, and memory stays small.
WAITING_FACTOR: Final = 8
WAITING_BYTES: Final = 16 * MIB

#: Seconds before a request is retried, and the factor of each further wait: 0.25, 1, 4.
RETRY_PAUSE: Final = 0.25
RETRY_FACTOR: Final = 4

#: Seconds to wait for an instance to return: the limit of a start, and a pause before.
INSTANCE_TIMEOUT: Final = 600.0

#: Seconds for a gateway to accept a connection: it may be far away (curl gives 300 s, browsers 5
#: and more).
GATEWAY_CONNECT_TIMEOUT: Final = 5.0

#: Bytes of a container's own words in the reason of a failed file.
FAILURE_BYTES: Final = 2 * KIB
