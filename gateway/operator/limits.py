"""The limits of the operator, named, with units and precedents."""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import MIB

#: Refusals of objects that are written at a time.
REFUSALS_AT_ONCE: Final = 4

#: Seconds until a write that failed is tried again.
RETRY_INTERVAL: Final = 5.0

#: Faults of one object that its status names.
SAID_CAUSES: Final = 8

#: Gateways that must report a pod as unreachable until it is deleted.
GATEWAYS_THAT_AGREE: Final = 2

#: Pods that are deleted as unreachable within a time in seconds: this share of all, or one.
DELETION_SHARE: Final = 0.1
DELETION_WINDOW: Final = 60.0

# --- Busy pods -----------------------------------------------------------------------------------
#
# Kubernetes asks writers of deletion costs not to write often, since each write goes to all that
# watch pods. So costs are powers of two, fall late, and few are written at a time.

#: Seconds between two reads of the gateways' open streams.
STREAMS_INTERVAL: Final = 10.0

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
