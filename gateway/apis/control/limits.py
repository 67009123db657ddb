"""The limits of the control plane, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: Bytes of a request's body. CreateModel's largest has 32 KB of environment, as much of everything
#: else, and six bytes for each character that JSON escapes (Kubernetes takes 3 MiB, etcd 1.5).
MAX_CONTROL_BODY: Final = 1 * MIB

#: Nested arrays and objects of JSON, and values in them all. The deepest input has eight levels
#: (``CreateEndpointConfig``), the widest 2,000 values (15 containers' environments).
MAX_JSON_DEPTH: Final = 32
MAX_JSON_VALUES: Final = 20_000

#: Characters that are matched against one of AWS's patterns; the longest text with a pattern has
#: 8,192 (``NextToken``).
MAX_PATTERN_TEXT: Final = 8192

#: Resources of one kind. Each is in memory, with a few KiB, and 128 KiB at most (AWS's quotas
#: belong to an account: hundreds of endpoints, thousands of models).
MAX_RESOURCES: Final = 2048

#: Bytes of one stored resource, as JSON: 15 containers with the maximum of everything except the
#: environment have 40 KiB.
MAX_RESOURCE_BYTES: Final = 128 * KIB

#: Bytes of the names and values of all environments of one model (AWS: 32 KB).
MAX_ENVIRONMENT_BYTES: Final = 32 * KIB

#: Tags of one resource (AWS: 50).
MAX_TAGS: Final = 50

#: Resources in one page of a list, unless the caller says otherwise (AWS: 10, and 100 at most).
LIST_PAGE: Final = 10

#: Characters of a list's NextToken; the gateway's own have 300.
MAX_PAGE_TOKEN: Final = 1024

#: Transform jobs that wait or run; each has a task, and its record with its model in memory.
MAX_JOBS_UNDER_WAY: Final = 256

#: Transform jobs that run at a time, unless the settings say otherwise: each starts instances.
JOBS_AT_ONCE: Final = 4

#: Disk space of API jobs' outputs that are gathered before they are published. One sender has a
#: share: eight files of 4 GiB each.
TRANSFORM_QUOTA: Final = 64 * 1024 * MIB

#: Endpoints that are planned at a time when a gateway starts; each may look at a file system, on
#: one of the 256 threads for files.
PLANS_AT_ONCE: Final = 64

#: Seconds to plan the endpoints before the gateway listens. An endpoint on a file system that does
#: not answer gets more time, but nobody waits for it.
RESTORE_TIMEOUT: Final = 5.0

#: Changes in progress, including those whose callers have left. Each has its input in memory, of 1
#: MiB at most (etcd: 5,000 proposals of 1.5 MiB; here they come from a few scripts).
MAX_CHANGES: Final = 64

#: Seconds that a change waits for earlier changes: as long as a store waits for a disk.
CHANGE_WAIT_TIMEOUT: Final = 30.0

#: Seconds for a change whose caller has left, when the gateway stops: one write to disk.
CHANGE_END_TIMEOUT: Final = 5.0

#: Bytes of the events in one answer, with 26 for each event; and events in one answer (AWS: 1 MB
#: and 10,000).
LOG_PAGE_BYTES: Final = 1 * MIB
LOG_PAGE_EVENTS: Final = 10_000

#: Lines, and their bytes, that are scanned for one answer, matching or not. The next answer
#: continues there (AWS: after some seconds). This is a quarter of a second's work.
LOG_SCANNED_LINES: Final = 50_000
LOG_SCANNED_BYTES: Final = 8 * MIB

#: Lines of one stream that are in memory while several streams are merged; with 64 KiB of text, 200
#: bytes for each.
LOG_LINES_AT_ONCE: Final = 256

#: Terms of one filter pattern: each is searched in each scanned line.
MAX_PATTERN_TERMS: Final = 32

#: Log groups and streams in one page of a list (AWS: 50).
LOG_LIST_PAGE: Final = 50

#: Requests for logs that read files at a time, each on a thread, and one of each principal at most.
#: Other requests wait (AWS: 10 a second for ``GetLogEvents``).
LOG_READS: Final = 4

#: Seconds for such a request with its wait, in case the disk hangs.
LOG_READ_TIMEOUT: Final = 15.0

#: Seconds until an endpoint's state is written again, if the store refused it, as on a full disk.
STORE_RETRY_INTERVAL: Final = 5.0
