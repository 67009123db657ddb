"""Every limit of the custom resources alone, named, with its unit and its precedent."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: One object as JSON, with its annotations, of which kubectl keeps one with the whole object in it
#: (etcd: 1.5 MiB); as much as is kept of one resource of the API.
MAX_OBJECT_BYTES: Final = 128 * KIB

#: Objects of one kind; each has a model or an endpoint of the API below it, of which there are as
#: many at most.
MAX_OBJECTS: Final = 2048

#: Destinations of one Endpoint, with the DeployedModels that name it: an endpoint's variants (AWS:
#: 10).
MAX_DESTINATIONS: Final = 10

#: Watches that are open at a time; each waits, and holds nothing (a cluster of 100 clients, with a
#: watch for each of two kinds).
MAX_WATCHES: Final = 256

#: Of them, those of one principal: so that nobody's are all.
MAX_WATCHES_OF_ONE: Final = MAX_WATCHES // 2

#: Bytes of a watch's lines that are written together, and one line more: the rest is made once the
#: client has taken them.
WATCH_WRITE: Final = 64 * KIB

#: The same of a list.
LIST_WRITE: Final = WATCH_WRITE

#: Characters of a list's ``continue``: twenty of a version and two names of 63, and a third more as
#: base64.
MAX_CONTINUE: Final = 256

#: Seconds that a watch is open at most, unless its client asks for less (kube-apiserver's
#: ``--min-request-timeout``: 1800).
WATCH_LIFETIME: Final = 1800.0

#: Seconds between bookmarks, for who asks for them (kube-apiserver: 60).
BOOKMARK_INTERVAL: Final = 60.0

#: Changes that are remembered for watches, and their bytes as JSON; who was away for longer is told
#: 410 and lists again (kube-apiserver's watch cache begins with 100 events of a kind).
HISTORY_CHANGES: Final = 1024
HISTORY_BYTES: Final = 8 * MIB

#: Characters of a label selector or a field selector.
MAX_SELECTOR: Final = 4 * KIB

#: What a label selector and a field selector ask of an object, together: each object is asked for
#: all of it.
MAX_SELECTOR_TERMS: Final = 64

#: Seconds until a change that could not be begun, as where the disk is full, is tried again.
RETRY_INTERVAL: Final = 5.0

#: Endpoints that are made what their objects say at a time: changes are under way of this, and of
#: the API's callers beside.
ENDPOINTS_AT_ONCE: Final = 16
