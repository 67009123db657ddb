"""partway.gateway.operator.deployment_status: each state of a Deployment, in our words."""

from __future__ import annotations

import pytest

from partway.gateway.operator.deployment_status import deployment_readiness, pod_troubles


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
    ("found", "serves", "reason"),
    [
        (deployment(), True, "Ready"),
        (deployment(8, availableReplicas=1), True, "Ready"),
        (deployment(), False, "Progressing"),
        (deployment(generation=2), True, "Progressing"),
        (deployment(replicas=1, updatedReplicas=0), True, "Progressing"),
        (
            {**deployment(), "status": {"observedGeneration": 1, "replicas": 2}},
            True,
            "Progressing",
        ),
        (deployment(availableReplicas=0), False, "Progressing"),
        (
            deployment(availableReplicas=0, conditions=progressing("NewReplicaSetAvailable")),
            *(False, "NotReady"),
        ),
        (
            deployment(availableReplicas=0, conditions=progressing("ProgressDeadlineExceeded")),
            *(False, "Failed"),
        ),
        (deployment(0), False, "NotReady"),
        ({"metadata": {}, "spec": {}}, False, "Progressing"),
        (
            deployment(
                updatedReplicas=0,
                conditions=[{"type": "ReplicaFailure", "status": "True", "message": "quota"}],
            ),
            *(True, "Failed"),
        ),
    ],
)
def test_each_state(found, serves, reason):
    assert deployment_readiness(found, [], serves=serves).reason == reason


def test_the_words_of_a_pod():
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                   "message": "0/3 nodes are available"}]  # fmt: skip
    pods = [{"metadata": {}}, {"metadata": {}, "status": {"conditions": conditions}}]
    said = deployment_readiness(deployment(availableReplicas=0), pods, serves=False)
    assert said.message == (
        "Its instances are being started: Unschedulable: 0/3 nodes are available"
    )
    waiting = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    said = deployment_readiness(deployment(availableReplicas=0), [a_pod(waiting)], serves=False)
    assert said.message == "Its instances are being started"


def a_pod(*containers, first=(), created="", of="", **metadata):
    return {
        "metadata": {
            "creationTimestamp": created, "labels": {"pod-template-hash": of}, **metadata,
        },
        "status": {
            "containerStatuses": [{"name": "model", **each} for each in containers],
            "initContainerStatuses": [{"name": "model-data", **each} for each in first],
        },
    }  # fmt: skip


RUNS = {"running": {"startedAt": "2026-12-01T00:00:00Z"}}
KILLED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
ENDED = {"terminated": {"exitCode": 3, "reason": "Error", "message": "Traceback\nno\x07 GPU\n\n"}}
FINE = {"waiting": {"reason": "PodInitializing"}}
NO_IMAGE = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
THREE = "container model ended with exit code 3: no� GPU"
SILENT = "container model does not answer GET /ping on port 8080"


@pytest.mark.parametrize(
    ("pod", "words"),
    [
        (
            a_pod({"state": BACK_OFF, "lastState": KILLED}),
            "CrashLoopBackOff: container model ended with exit code 137 (OOMKilled)",
        ),
        (a_pod({"state": BACK_OFF}), "CrashLoopBackOff: back-off 10s restarting"),
        (a_pod({"state": BACK_OFF, "lastState": ENDED}), f"CrashLoopBackOff: {THREE}"),
        (a_pod({"state": ENDED}), THREE),
        (a_pod({"state": NO_IMAGE, "lastState": ENDED}), "ErrImagePull: not found"),
        (a_pod({"state": FINE, "lastState": ENDED}), f"PodInitializing: {THREE}"),
        (a_pod({"state": DONE}), "container model ended with exit code 0"),
        (
            a_pod({"state": FINE}, first=[{"state": ENDED}]),
            THREE.replace("model", "model-data"),
        ),
        (a_pod({"state": RUNS, "started": False}, first=[{"state": DONE}]), f"{SILENT} yet"),
        (
            a_pod({"state": RUNS, "started": False, "lastState": ENDED}),
            f"{SILENT} yet; before, {THREE}",
        ),
        (a_pod({"state": RUNS, "started": True, "ready": False}), SILENT),
        (a_pod({"state": RUNS, "started": True, "ready": True, "lastState": ENDED}), None),
        (a_pod({"state": FINE}, first=[{"state": RUNS, "started": False, "ready": False}]), None),
        (a_pod({"name": "proxy", "state": RUNS, "ready": False}), None),
    ],
)
def test_why_a_container_does_not_serve(pod, words):
    assert next(pod_troubles([pod]), None) == words


def test_the_latest_pods_are_asked():
    def broken(code, created, of, **metadata):
        ended = {"terminated": {"exitCode": code}}
        return a_pod({"state": ended}, created=created, of=of, **metadata)

    pods = [
        broken(1, "2026-12-01T00:00:00Z", "old"),
        broken(2, "2026-12-01T04:00:00Z", "old"),  # in place of a lost one
        broken(3, "2026-12-01T02:00:00Z", "new"),
        broken(4, "2026-12-01T03:00:00Z", "new"),
        broken(5, "2026-12-01T05:00:00Z", "new", deletionTimestamp="2026-12-01T06:00:00Z"),
    ]
    codes = [
        each.removeprefix("container model ended with exit code ") for each in pod_troubles(pods)
    ]
    assert codes == ["4", "3"]
