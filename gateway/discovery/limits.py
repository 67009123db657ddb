"""The limits of discovery, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.gateway.apis.kubernetes.limits import MAX_OBJECTS

#: Seconds between two renewals of a report. The operator drops a report that does not change for
#: three times as long (REPORT_LIFETIME in gateway/operator/limits.py).
REPORT_RENEWAL: Final = 10.0

#: Reports of one gateway. A gateway that cannot reach more pods reports none of them: it is likely
#: cut off itself, and a full renewal should take a second or two of the API server.
MAX_REPORTS: Final = 100

#: Seconds in which a gateway that stops withdraws its reports of unreachable pods.
WITHDRAWAL_TIMEOUT: Final = 2.0

#: Seconds after the API server's return in which a pod that was ready before still takes streams,
#: though it is called unready now. After an absence of 40 s, a cluster's node controller calls all
#: pods unready, until the kubelets have reported again: every 10 s, and each pod within 10 more.
UNREADY_DOUBT: Final = 30.0

#: Seconds from a change in the cluster until it is looked at, so that a burst of changes costs one
#: look. A look at 2048 Endpoint objects takes some 10 ms.
LOOK_DELAY: Final = 0.05

#: Endpoint objects that one gateway follows: as many as the embedded server takes.
MAX_ENDPOINT_OBJECTS: Final = MAX_OBJECTS

#: Discovered instances of one gateway, in all variants together. Each has 4.6 KiB of state, and 110
#: bytes in each worker's table: 90 MiB in all.
MAX_DISCOVERED: Final = 20_000
