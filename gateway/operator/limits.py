"""The limits of the operator, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import MIB

#: Refusals of objects that are written at a time.
REFUSALS_AT_ONCE: Final = 4

#: Seconds until a write that failed is tried again.
RETRY_INTERVAL: Final = 5.0

#: Connections of the status port at once: probes and scrapers need one each. Others lose the one
#: that is idle for longest.
STATUS_CONNECTIONS: Final = 64

#: Seconds in which the status port's answers may end when the process ends.
STATUS_CLOSE_TIMEOUT: Final = 1.0

#: Processors and memory of the init container that fetches a model's data. A fetch keeps less than
#: half of that memory, however large the data are.
FETCH_PROCESSORS: Final = "100m"
FETCH_MEMORY: Final = "512Mi"

# --- Unreachable pods -----------------------------------------------------------------------------

#: Gateways that must report a pod as unreachable until it is deleted.
GATEWAYS_THAT_AGREE: Final = 2

#: Seconds for which a report counts after its last change. Gateways renew each report every 10 s
#: (REPORT_RENEWAL in gateway/discovery/limits.py).
REPORT_LIFETIME: Final = 30.0

#: Old reports that are removed before the operator looks at pods again.
REMOVED_AT_ONCE: Final = 10

#: Seconds from a change of reports, pods or gateways until it is looked at, so that a burst of
#: changes costs one look.
LOOK_DELAY: Final = 0.05

#: If more pods than this are reported, and more than half of all, none is deleted: the network is
#: at fault. Kubernetes' node controller has the same rule, for two nodes and 55 % of them.
DISRUPTION_PODS: Final = 2

#: Seconds for which the node of a deleted pod gets no further pod of the same model. A cluster's
#: node controller notices a lost node after 40 to 50 s (``--node-monitor-grace-period``).
UNREACHABLE_NODE_TIME: Final = 60.0

#: Pods that are deleted as unreachable within a time in seconds: this share of all, or one.
DELETION_SHARE: Final = 0.1
DELETION_WINDOW: Final = 60.0

# --- Busy pods -----------------------------------------------------------------------------------
#
# Kubernetes asks writers of deletion costs not to write often, since each write goes to all that
# watch pods. So costs are powers of two, fall late, and few are written at a time.

#: Seconds between two reads of the gateways' open streams. The annotations after a read end within
#: this time, so that the next ones have fresh figures.
STREAMS_INTERVAL: Final = 10.0

#: Gateways that are read. Each takes 0.05 s of CPU for the pages of 10,000 pods, and a rollout has
#: twice as many for a while. The streams of further ones are unknown.
MAX_GATEWAYS: Final = 128

#: Seconds for a gateway's page of metrics, its bytes, and the gateways that are read at a time. A
#: page has 120 bytes for each pod.
STREAMS_TIMEOUT: Final = 5.0
MAX_PAGE: Final = 16 * MIB
READS_AT_ONCE: Final = 8

#: Seconds for which the last streams of a silent gateway count. It must be shorter than
#: COST_FALLS_AFTER, or a new leader would call pods idle before it has waited for all gateways.
LAST_STREAMS_COUNT: Final = 30.0

#: Seconds for which a pod must have had fewer streams until its cost falls, and until it is idle.
#: Cluster Autoscaler waits for 10 minutes before it removes a node.
COST_FALLS_AFTER: Final = 60.0

#: The largest deletion cost: the largest power of two that Kubernetes takes (int32).
MAX_COST: Final = 1 << 30

#: Pods whose annotations change after one read.
ANNOTATED_AT_ONCE: Final = 100
