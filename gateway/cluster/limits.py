"""The limits of a client of the Kubernetes API, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: Seconds for the whole answer to a request, and for the head of a watch's answer. A leader's
#: renewal has a shorter limit.
REQUEST_TIMEOUT: Final = 10.0

#: Bytes of an answer, such as one page of a list. etcd takes objects of 1.5 MiB; most have a few
#: KiB.
MAX_ANSWER: Final = 64 * MIB

#: Bytes of one event of a watch: the largest object of etcd (1.5 MiB), as JSON, with its escapes.
MAX_EVENT: Final = 4 * MIB

#: Objects that a list asks for at a time (client-go's reflector: 500), so that no page stops other
#: work for long; and the pages of a list. If a hundred objects are more than MAX_ANSWER, the list
#: begins anew with fewer: ten of etcd's largest are 15 MiB.
PAGE_OBJECTS: Final = 100
PAGE_OBJECTS_IF_LARGE: Final = 10
MAX_PAGES: Final = 1000

#: Bytes of a list on all its pages: 10,000 pods of 10 KiB each. As objects they take several times
#: as much.
MAX_LIST: Final = 128 * MIB

#: Seconds that a watch asks to last: this long, or up to twice as long, so that not all watches
#: end together (client-go: 5 to 10 minutes).
WATCH_LIFETIME: Final = 300.0

#: Seconds after which a watch is over that its server should have ended.
WATCH_MARGIN: Final = 30.0

#: Seconds without a whole event of a watch until it begins again. An API server sends a bookmark
#: each minute.
WATCH_SILENCE: Final = 150.0

#: Seconds between two looks whether the API server answers, as between two heartbeats of a node. A
#: server that hangs keeps its watches, and is noticed within this time and REQUEST_TIMEOUT: sooner
#: than the 40 s after which a cluster calls the pods of silent nodes unready.
SERVER_LOOK: Final = 10.0

#: Seconds until a host that has fallen silent loses its connections: so many probes, at this
#: distance. A watch of a host that is cut off ends after this time.
PROBE_INTERVAL: Final = 5
PROBES: Final = 3

#: Seconds between two tries of a list or a watch that failed: the first wait, which doubles, and
#: the longest one. Each is shortened at random, by up to half, so that clients come one by one.
RETRY_SHORTEST: Final = 0.25
RETRY_LONGEST: Final = 8.0

#: Seconds after which the token file is read again (client-go: 60). kubelet renews a token when
#: 80 % of its time are over.
TOKEN_AGE: Final = 60.0

#: Bytes of a token file. A token of a service account has 1 to 2 KiB.
MAX_TOKEN: Final = 64 * KIB

#: Characters of an API server's own words that a message repeats.
MAX_SHOWN: Final = 600

# --- Leases --------------------------------------------------------------------------------------
#
# client-go has 15, 10 and 2 seconds. A successor begins at most one look, the lease's duration and
# another look after the leader's last renewal: 12 seconds, and the time of its requests.

#: Seconds after which a lease that was not renewed may be taken by another.
LEASE_DURATION: Final = 10

#: Seconds after which a leader stops if it could not renew its lease. It must be well below
#: LEASE_DURATION: another may begin after that time.
LEASE_DEADLINE: Final = 6.0

#: Seconds between two renewals.
LEASE_RENEWAL: Final = 2.0

#: Seconds for one request about a lease.
LEASE_REQUEST: Final = 1.5

#: Seconds between two looks at a lease that another one holds.
LEASE_LOOK: Final = 1.0
