"""The limits of discovery, named, with units and precedents."""

from __future__ import annotations

from typing import Final

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
