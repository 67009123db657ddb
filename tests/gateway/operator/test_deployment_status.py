"""partway.gateway.operator.deployment_status: each state of a Deployment, in our words."""

from __future__ import annotations

import pytest

from partway.gateway.operator.deployment_status import deployment_readiness
from tests.gateway.operator.a_cluster import a_slice

READY = [a_slice("one", True)]


def deployment(replicas=1, generation=1, **status):
    counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), replicas)
    return {
        "metadata": {"generation": generation},
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 1, **counts, **status},
    }


def progressing(reason, message=""):
    return [{"type": "Progressing", "status": "True", "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("found", "slices", "reason"),
    [
        (None, [], "Pending"),
        (deployment(), READY, "Ready"),
        (deployment(8, availableReplicas=1), READY, "Ready"),
        (deployment(), [], "Progressing"),
        (deployment(), [a_slice("one", False)], "Progressing"),
        (deployment(generation=2), READY, "Progressing"),
        (deployment(replicas=1, updatedReplicas=0), READY, "Progressing"),
        (
            {**deployment(), "status": {"observedGeneration": 1, "replicas": 2}},
            READY,
            "Progressing",
        ),
        (deployment(availableReplicas=0), [], "Progressing"),
        (
            deployment(availableReplicas=0, conditions=progressing("NewReplicaSetAvailable")),
            *([], "NotReady"),
        ),
        (
            deployment(availableReplicas=0, conditions=progressing("ProgressDeadlineExceeded")),
            *([], "Failed"),
        ),
        (deployment(0), [], "NotReady"),
        ({"metadata": {}, "spec": {}}, [], "Progressing"),
        (
            deployment(
                updatedReplicas=0,
                conditions=[{"type": "ReplicaFailure", "status": "True", "message": "quota"}],
            ),
            *(READY, "Failed"),
        ),
    ],
)
def test_each_state(found, slices, reason):
    assert deployment_readiness(found, slices, []).reason == reason


def test_the_words_of_a_pod():
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                   "message": "0/3 nodes are available"}]  # fmt: skip
    pods = [{}, {"status": {"conditions": conditions}}]
    said = deployment_readiness(deployment(availableReplicas=0), [], pods)
    assert said.message == (
        "Its instances are being started: Unschedulable: 0/3 nodes are available"
    )
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    said = deployment_readiness(
        deployment(availableReplicas=0), [], [{"status": {"containerStatuses": [waiting]}}]
    )
    assert said.message == "Its instances are being started"
