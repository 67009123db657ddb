"""Every limit of the control plane alone, named, with its unit and its precedent."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import MIB

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

#: A store that has not taken what became of an endpoint, as where the disk is full, is tried again
#: so much later (seconds).
STORE_RETRY_INTERVAL: Final = 5.0
