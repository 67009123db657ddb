"""partway.gateway.operator.model_deployments: the whole manifests, and what each option adds."""

from __future__ import annotations

import pytest

from partway.gateway.operator.model_deployments import (
    MADE_OF,
    ModelDataAccess,
    in_place_of,
    is_made_of,
    is_owned,
    manifests,
)
from tests.gateway.operator.a_cluster import a_model, annotated, deployed_model

DATA = ModelDataAccess("registry.example/partway:1", "s3-access")

LABELS = {
    "partway.dev/model": "one",
    "partway.dev/endpoint": "chat",
    "app.kubernetes.io/managed-by": "partway-operator",
}
SELECTOR = {"partway.dev/model": "one"}
PING = {"path": "/ping", "port": 8080}


def made(given, data=DATA):
    return manifests(deployed_model(given), data)


def pod(given, data=DATA):
    _, deployment = made(given, data)
    return deployment["spec"]["template"]["spec"]


def container(given):
    (only,) = pod(given)["containers"]
    return only


def test_the_whole_of_it():
    env = [{"name": "MODE", "value": "fast"}, {"name": "PRICE", "value": "$(A) or $5"}]
    service, deployment = made(a_model(env=env))
    owner = {
        "apiVersion": "prediction.aiplatform.gdc.goog/v1",
        "kind": "DeployedModel",
        "name": "one",
        "uid": "uid-of-one",
        "controller": True,
    }
    metadata = {
        "name": "one",
        "namespace": "default",
        "labels": LABELS,
        "ownerReferences": [owner],
    }
    assert {**service, "metadata": without_mark(service)} == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "selector": SELECTOR,
            "ports": [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}],
        },
    }
    taints = ("unreachable", "not-ready")
    assert {**deployment, "metadata": without_mark(deployment)} == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": SELECTOR},
            "progressDeadlineSeconds": 1080,
            "revisionHistoryLimit": 2,
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {"labels": LABELS},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": 30,
                    "containers": [
                        {
                            "name": "model",
                            "image": "registry.example/echo:1",
                            "args": ["serve"],
                            "env": [
                                {"name": "SAGEMAKER_BIND_TO_PORT", "value": "8080"},
                                {"name": "MODE", "value": "fast"},
                                {"name": "PRICE", "value": "$$(A) or $5"},
                            ],
                            "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                            "startupProbe": {
                                "httpGet": PING,
                                "periodSeconds": 1,
                                "timeoutSeconds": 2,
                                "failureThreshold": 480,
                            },
                            "readinessProbe": {
                                "httpGet": PING,
                                "periodSeconds": 1,
                                "timeoutSeconds": 2,
                                "failureThreshold": 3,
                            },
                            "securityContext": {
                                "allowPrivilegeEscalation": False,
                                "capabilities": {"drop": ["MKNOD", "NET_RAW"]},
                            },
                        }
                    ],
                    "tolerations": [
                        {
                            "key": f"node.kubernetes.io/{each}",
                            "operator": "Exists",
                            "effect": "NoExecute",
                            "tolerationSeconds": 3,
                        }
                        for each in taints
                    ],
                    "topologySpreadConstraints": [
                        {
                            "maxSkew": 1,
                            "topologyKey": "kubernetes.io/hostname",
                            "whenUnsatisfiable": "ScheduleAnyway",
                            "labelSelector": {"matchLabels": SELECTOR},
                        }
                    ],
                    "affinity": {
                        "podAntiAffinity": {
                            "requiredDuringSchedulingIgnoredDuringExecution": [
                                {
                                    "labelSelector": {
                                        "matchLabels": SELECTOR,
                                        "matchExpressions": [
                                            {
                                                "key": "partway.dev/unreachable",
                                                "operator": "Exists",
                                            }
                                        ],
                                    },
                                    "topologyKey": "kubernetes.io/hostname",
                                }
                            ]
                        }
                    },
                    "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                },
            },
        },
    }


def without_mark(manifest):
    metadata = dict(manifest["metadata"])
    assert list(metadata.pop("annotations")) == [MADE_OF]
    return metadata


def test_resources_and_nodes():
    given = annotated(
        *(a_model(),),
        requests="cpu=2",
        limits="nvidia.com/gpu=1",
        node_selector="pool=models",
        tolerations="nvidia.com/gpu:NoSchedule",
        service_account="models",
        startup_seconds="900",
        termination_seconds="60",
    )
    _, deployment = made(given)
    assert container(given)["resources"] == {
        "requests": {"cpu": "2"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert container(given)["startupProbe"]["failureThreshold"] == 900
    assert deployment["spec"]["progressDeadlineSeconds"] == 1500
    spec = pod(given)
    assert spec["nodeSelector"] == {"pool": "models"}
    assert spec["serviceAccountName"] == "models"
    assert spec["terminationGracePeriodSeconds"] == 60
    assert spec["tolerations"][0]["key"] == "nvidia.com/gpu"
    assert len(spec["tolerations"]) == 3


def test_streams_have_their_time_before_sigterm():
    given = annotated(a_model(), drain_seconds="1800", termination_seconds="60")
    assert container(given)["lifecycle"] == {"preStop": {"sleep": {"seconds": 1800}}}
    assert pod(given)["terminationGracePeriodSeconds"] == 1860
    assert "lifecycle" not in container(a_model())


@pytest.mark.parametrize("folder", ["", "chat/3"])
def test_a_volume(folder):
    given = annotated(a_model(), model_volume=f"models/{folder}" if folder else "models")
    assert pod(given)["volumes"] == [
        {
            "name": "model-data",
            "persistentVolumeClaim": {"claimName": "models", "readOnly": True},
        }
    ]
    mount = {"name": "model-data", "mountPath": "/opt/ml/model", "readOnly": True}
    assert container(given)["volumeMounts"] == [mount | ({"subPath": folder} if folder else {})]


def test_model_data_are_fetched():
    given = a_model()
    given["spec"]["modelSpec"]["artifactLocation"] = "s3://bucket/chat.tar.gz"
    spec = pod(given)
    (fetching,) = spec["initContainers"]
    assert fetching["image"] == "registry.example/partway:1"
    assert fetching["args"] == ["fetch", "s3://bucket/chat.tar.gz", "/model-data/model"]
    assert fetching["envFrom"] == [{"secretRef": {"name": "s3-access"}}]
    assert spec["volumes"] == [{"name": "model-data", "emptyDir": {}}]
    mount = {"name": "model-data", "mountPath": "/opt/ml/model", "readOnly": True}
    assert container(given)["volumeMounts"] == [{**mount, "subPath": "model"}]
    assert "envFrom" not in pod(given, ModelDataAccess("image"))["initContainers"][0]


def test_a_place_of_model_data_takes_nothing_from_the_environment():
    """The init container has a secret there, which a place would tell its server."""
    given = a_model()
    given["spec"]["modelSpec"]["artifactLocation"] = "s3://bucket/$(AWS_SECRET_ACCESS_KEY)/"
    (fetching,) = pod(given)["initContainers"]
    assert fetching["args"][1] == "s3://bucket/$$(AWS_SECRET_ACCESS_KEY)/"


def test_replicas_are_others_affair_unless_they_are_given():
    for given, replicas in ((a_model(), 5), (annotated(a_model(), replicas="2"), 2)):
        _, wanted = made(given)
        live = {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 5}}
        assert in_place_of(live, wanted)["spec"]["replicas"] == replicas


def test_a_replacement_keeps_what_the_cluster_has_given():
    service, _ = made(a_model())
    live = {
        "metadata": {"resourceVersion": "7", "uid": "u", "annotations": {"a": "b"}},
        "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": []},
    }
    replaced = in_place_of(live, service)
    assert replaced["metadata"]["resourceVersion"] == "7"
    assert replaced["metadata"]["annotations"]["a"] == "b"
    assert replaced["spec"]["clusterIPs"] == ["None"]
    assert replaced["spec"]["ports"] == service["spec"]["ports"]
    assert is_made_of(replaced, service)


def test_each_change_is_seen():
    _, before = made(a_model())
    for changed in (
        a_model(imageURI="other"),
        a_model(endpoint="other"),
        annotated(a_model(), replicas="1"),
    ):
        _, after = made(changed)
        assert not is_made_of(before, after)
    assert is_made_of(before, made(a_model())[1])


def test_an_owner_is_known_by_its_uid():
    service, _ = made(a_model())
    model = deployed_model(a_model())
    assert is_owned(service, model)
    other = a_model()
    other["metadata"]["uid"] = "another"
    assert not is_owned(service, deployed_model(other))
    assert not is_owned({"metadata": {}}, model)
