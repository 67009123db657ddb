"""Every limit of the control plane alone, named, with its unit and its precedent."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: A request's body. CreateModel's largest has 32 KB of environment, as much of everything else, and
#: six bytes for each character that JSON escapes (Kubernetes takes 3 MiB, etcd 1.5).
MAX_CONTROL_BODY: Final = 1 * MIB

#: Arrays and objects of JSON within one another, and values in them all. The deepest input has
#: eight levels (``CreateEndpointConfig``), the widest 2,000 values (15 containers' environments).
MAX_JSON_DEPTH: Final = 32
MAX_JSON_VALUES: Final = 20_000

#: Characters that are tried on one of AWS's patterns; the longest that has one may have 8,192
#: (``NextToken``).
MAX_PATTERN_TEXT: Final = 8192

#: Resources of one kind. Each is in memory whole, in a few KiB, in 128 at most (AWS's quotas are an
#: account's own: hundreds of endpoints, thousands of models).
MAX_RESOURCES: Final = 2048

#: What is kept of one resource, as JSON: 15 containers with all that each may have beside its
#: environment are 40 KiB.
MAX_RESOURCE_BYTES: Final = 128 * KIB

#: Names and values of all environments of one model (AWS: 32 KB).
MAX_ENVIRONMENT_BYTES: Final = 32 * KIB

#: Tags of one resource (AWS: 50).
MAX_TAGS: Final = 50

#: Resources in one page of a list, unless its caller says otherwise (AWS: 10, and 100 at most).
LIST_PAGE: Final = 10

#: Characters of a list's NextToken: those that are made have 300.
MAX_PAGE_TOKEN: Final = 1024

#: Transform jobs that wait or run; each has a task, and its record with its model in memory.
MAX_JOBS_UNDER_WAY: Final = 256

#: Of those so many run at a time, unless the settings say otherwise: each starts instances.
JOBS_AT_ONCE: Final = 4

#: Endpoints that are planned at a time when a gateway starts; each may look at a file system, on
#: one of the 256 threads for files.
PLANS_AT_ONCE: Final = 64

#: For them to be planned before the gateway listens (seconds); a file system that is away has more
#: time, but nobody else waits for it.
RESTORE_TIMEOUT: Final = 5.0

#: Changes that are under way, with those whose callers have left; each has its input in memory, of
#: 1 MiB at most (etcd: 5,000 proposals of 1.5 MiB; here they are of a few scripts).
MAX_CHANGES: Final = 64

#: For the changes before one to be written down (seconds), as long as a store has for a disk.
CHANGE_WAIT_TIMEOUT: Final = 30.0

#: For a change whose caller has left to come to its end when the gateway stops: one write to disk.
CHANGE_END_TIMEOUT: Final = 5.0

#: Messages of the events in one answer, with 26 bytes for each, and how many events (AWS: 1 MB and
#: 10,000).
LOG_PAGE_BYTES: Final = 1 * MIB
LOG_PAGE_EVENTS: Final = 10_000

#: Lines, and their bytes, that are looked at for one answer, whether they are in it or not; what
#: comes then is in the next one (AWS: some seconds' worth): a quarter of a second's work.
LOG_SCANNED_LINES: Final = 50_000
LOG_SCANNED_BYTES: Final = 8 * MIB

#: Lines of one stream that are in memory at once while those of several are put in order; with 64
#: KiB of text, 200 bytes for each.
LOG_LINES_AT_ONCE: Final = 256

#: Terms of one filter pattern: each is looked for in each of those lines.
MAX_PATTERN_TERMS: Final = 32

#: Log groups and streams in one page of a list (AWS: 50).
LOG_LIST_PAGE: Final = 50

#: Requests for logs that read files at a time, each on a thread, one at most of each principal;
#: others wait for their turn (AWS: 10 a second for ``GetLogEvents``).
LOG_READS: Final = 4

#: For one of them with its wait (seconds), should the disk hang.
LOG_READ_TIMEOUT: Final = 15.0

#: A store that has not taken what became of an endpoint, as where the disk is full, is tried again
#: so much later (seconds).
STORE_RETRY_INTERVAL: Final = 5.0
