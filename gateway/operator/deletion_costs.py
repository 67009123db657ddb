"""Annotations of pods by which others spare those with open streams: pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from partway.gateway.operator.limits import COST_FALLS_AFTER, MAX_COST

#: Of a ReplicaSet's pods that are alike otherwise, those of the lowest cost are deleted first. A
#: pod without the annotation has the cost 0.
COST: Final = "controller.kubernetes.io/pod-deletion-cost"

#: Keep Cluster Autoscaler and Karpenter from moving a pod to save its node.
_STAYS: Final = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}


def shown_cost(annotations: Mapping[str, str]) -> int:
    """Return the cost that a pod has now."""
    text = annotations.get(COST, "")
    return int(text) if text.isdecimal() and len(text) < 11 else 0


def cost_of(streams: int, shown: int) -> int:
    """Return the cost for a number of streams: 0, or a power of two.

    A power that is within a factor of two is kept, so that one stream more or less changes nothing
    if a pod has many.
    """
    if shown < 2 * streams and streams < 2 * shown:
        return shown
    return min(1 << streams.bit_length() - 1, MAX_COST) if streams else 0


def changed_annotations(
    annotations: Mapping[str, str], cost: int, *, stays: bool
) -> dict[str, str | None]:
    """Return the changes that give a pod a cost; None removes an annotation.

    A pod without streams that has no cost is left as it is.

    Args:
        stays: whether a pod that has streams stays on its node.
    """
    if not cost and COST not in annotations:
        return {}
    busy = {COST: str(cost), **(_STAYS if stays else {})}
    wanted = {name: value if cost else None for name, value in busy.items()}
    return {name: value for name, value in wanted.items() if annotations.get(name) != value}


class _Lower(NamedTuple):
    """Since when a pod's cost is to be lower than the one that it shows."""

    shown: int
    since: float


class DeletionCosts:
    """The costs of pods: a rise shows at once, and a fall once it has lasted COST_FALLS_AFTER.

    So a pod that has a request now and then stays busy in between.
    """

    def __init__(self) -> None:
        self._lower: dict[str, _Lower] = {}

    def cost(self, uid: str, shown: int, streams: int, now: float) -> int:
        """Return the cost that a pod is to have."""
        cost = cost_of(streams, shown)
        if cost >= shown:
            self._lower.pop(uid, None)
            return cost
        lower = self._lower.get(uid)
        if lower is None or lower.shown != shown:
            lower = self._lower[uid] = _Lower(shown, now)
        return cost if now - lower.since >= COST_FALLS_AFTER else shown

    def keep_only(self, uids: Collection[str]) -> None:
        for each in self._lower.keys() - set(uids):
            del self._lower[each]
