"""The limits of the custom resources, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: Bytes of one object as JSON, with its annotations; kubectl keeps the whole object in one of them
#: (etcd: 1.5 MiB). A resource of the API has the same limit.
MAX_OBJECT_BYTES: Final = 128 * KIB

#: Objects of one kind: as many as the API has models and endpoints, since each object has one.
MAX_OBJECTS: Final = 2048

#: Destinations of one Endpoint, and DeployedModels that name it: an endpoint's variants (AWS: 10).
MAX_DESTINATIONS: Final = 10

#: Watches that are open at a time; each waits, and holds no objects (a cluster of 100 clients, with
#: a watch for each of two kinds).
MAX_WATCHES: Final = 256

#: Watches of one principal, so that no principal takes all of them.
MAX_WATCHES_OF_ONE: Final = MAX_WATCHES // 2

#: Bytes of a watch's lines that are written together, plus at most one line. Further lines are made
#: once the client has taken these.
WATCH_WRITE: Final = 64 * KIB

#: Bytes of a list that are written together, likewise.
LIST_WRITE: Final = WATCH_WRITE

#: Characters of a list's ``continue``: twenty of a version and two names of 63, and a third more
#: for base64.
MAX_CONTINUE: Final = 256

#: Seconds that a watch is open at most, unless its client asks for less (kube-apiserver's
#: ``--min-request-timeout``: 1800).
WATCH_LIFETIME: Final = 1800.0

#: Seconds between bookmarks, for clients that ask for bookmarks (kube-apiserver: 60).
BOOKMARK_INTERVAL: Final = 60.0

#: Changes that are remembered for watches, and their bytes as JSON. A client that was away longer
#: gets 410 and lists again (kube-apiserver's watch cache begins with 100 events of a kind).
HISTORY_CHANGES: Final = 1024
HISTORY_BYTES: Final = 8 * MIB

#: Characters of a label selector or a field selector.
MAX_SELECTOR: Final = 4 * KIB

#: Terms of a label selector and a field selector together: each object is tested against all.
MAX_SELECTOR_TERMS: Final = 64

#: Seconds until a change that could not begin, as on a full disk, is tried again.
RETRY_INTERVAL: Final = 5.0

#: Endpoints that the controller changes at a time; changes of the API's callers run beside these.
ENDPOINTS_AT_ONCE: Final = 16

#: Faults of one object that its status, or a gateway's log, names.
SAID_CAUSES: Final = 8
