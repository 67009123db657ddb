"""partway.gateway.operator.model_deployments: the whole manifests, and what each option adds."""

from __future__ import annotations

import re
from itertools import product

import pytest

from partway.gateway.operator.model_deployments import (
    MADE_OF,
    Abilities,
    ModelDataAccess,
    in_place_of,
    is_made_of,
    is_owned,
    manifests,
)
from tests.gateway.operator.a_cluster import a_model, annotated, deployed_model

PODS = ModelDataAccess("registry.example/partway:1", "s3-access")
OLD = Abilities(sleeps=False, policy="policy/v1beta1", slices="discovery.k8s.io/v1beta1")

LABELS = {
    "partway.dev/model": "one",
    "partway.dev/endpoint": "chat",
    "app.kubernetes.io/managed-by": "partway-operator",
}
SELECTOR = {"partway.dev/model": "one"}
PING = {"path": "/ping", "port": 8080}


def made(given, pods=PODS, can=OLD):
    return manifests(deployed_model(given), pods, can)


def pod(given, pods=PODS, can=OLD):
    return made(given, pods, can).deployment["spec"]["template"]["spec"]


def container(given, can=OLD):
    (only,) = pod(given, can=can)["containers"]
    return only


def with_data(place="s3://bucket/chat.tar.gz"):
    given = a_model()
    given["spec"]["modelSpec"]["artifactLocation"] = place
    return given


def test_the_whole_of_it():
    env = [{"name": "MODE", "value": "fast"}, {"name": "PRICE", "value": "$(A) or $5"}]
    service, budget, deployment = made(a_model(env=env))
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
    assert {**budget, "metadata": without_mark(budget)} == {
        "apiVersion": "policy/v1beta1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata,
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": SELECTOR}},
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
                                {"name": "PRICE", "value": "$$(A) or $$5"},
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
                            "terminationMessagePolicy": "FallbackToLogsOnError",
                        }
                    ],
                    "tolerations": [
                        {
                            "key": f"node.kubernetes.io/{each}",
                            "operator": "Exists",
                            "effect": "NoExecute",
                            "tolerationSeconds": 20,
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
    deployment = made(given).deployment
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


def test_a_pod_waits_for_gateways_where_kubernetes_can():
    assert container(a_model(), Abilities())["lifecycle"] == {"preStop": {"sleep": {"seconds": 2}}}
    assert pod(a_model(), can=Abilities())["terminationGracePeriodSeconds"] == 32
    assert "lifecycle" not in container(annotated(a_model(), drain_seconds="0"), Abilities())


def test_a_budget_lets_unready_pods_go_where_kubernetes_can():
    budget = made(a_model(), can=Abilities()).budget
    assert budget["apiVersion"] == "policy/v1"
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


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
    given = with_data()
    spec = pod(given)
    (fetching,) = spec["initContainers"]
    assert fetching["image"] == "registry.example/partway:1"
    assert fetching["args"] == ["fetch", "s3://bucket/chat.tar.gz", "/model-data/model"]
    assert fetching["envFrom"] == [{"secretRef": {"name": "s3-access"}}]
    assert fetching["resources"]["limits"] == {"memory": "512Mi"}
    assert fetching["terminationMessagePolicy"] == "FallbackToLogsOnError"
    assert spec["volumes"] == [{"name": "model-data", "emptyDir": {"sizeLimit": "65536Mi"}}]
    mount = {"name": "model-data", "mountPath": "/opt/ml/model", "readOnly": True}
    assert container(given)["volumeMounts"] == [{**mount, "subPath": "model"}]
    assert "envFrom" not in pod(given, ModelDataAccess("image"))["initContainers"][0]


def test_a_place_of_model_data_takes_nothing_from_the_environment():
    """The init container has a secret there, which a place would tell its server."""
    given = with_data("s3://bucket/$(AWS_SECRET_ACCESS_KEY)/$$(B)/")
    (fetching,) = pod(given)["initContainers"]
    assert fetching["args"][1] == "s3://bucket/$$(AWS_SECRET_ACCESS_KEY)/$$$$(B)/"


def expanded(value: str) -> str:
    """Replace ``$(NAME)`` as the kubelet does: ``$$`` is read first, and an open ``$(`` stays."""
    return re.sub(r"\$\$|\$\([^)]*\)", lambda m: "$" if m[0] == "$$" else "SECRET", value)


def test_no_value_takes_anything_from_the_environment():
    values = ["".join(each) for n in range(7) for each in product("$()A", repeat=n)]
    env = [{"name": f"V{number}", "value": value} for number, value in enumerate(values)]
    found = {each["name"]: each["value"] for each in container(a_model(env=env))["env"]}
    assert [expanded(found[each["name"]]) for each in env] == values


def test_replicas_are_others_affair_unless_they_are_given():
    for given, replicas in ((a_model(), 5), (annotated(a_model(), replicas="2"), 2)):
        wanted = made(given).deployment
        live = {"metadata": {"resourceVersion": "7"}, "spec": {"replicas": 5}}
        assert in_place_of(live, wanted)["spec"]["replicas"] == replicas


def test_a_replacement_keeps_what_the_cluster_has_given():
    service = made(a_model()).service
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
    before = made(a_model()).deployment
    for changed in (
        a_model(imageURI="other"),
        a_model(endpoint="other"),
        annotated(a_model(), replicas="1"),
    ):
        assert not is_made_of(before, made(changed).deployment)
    assert is_made_of(before, made(a_model()).deployment)


def test_another_version_of_the_operator_or_of_the_cluster_replaces_no_pods():
    before, after = (
        made(with_data()),
        made(with_data(), ModelDataAccess("other", "s3-access"), Abilities()),
    )
    assert before.deployment["spec"] != after.deployment["spec"]
    assert is_made_of(before.deployment, after.deployment)
    elsewhere = made(with_data(), ModelDataAccess("registry.example/partway:1", "other"))
    assert not is_made_of(before.deployment, elsewhere.deployment)


def test_a_release_that_replaces_all_pods_is_a_decision():
    """Another digest here restarts every model of every cluster that is upgraded.

    If that is meant, CHANGELOG.md must say so, and this test gets the new digest.
    """
    given = annotated(with_data(), limits="memory=16Gi,nvidia.com/gpu=1", replicas="2")
    deployment = made(given).deployment
    assert deployment["metadata"]["annotations"][MADE_OF] == "a69635f4b43ebaea"


def test_secrets_that_pull_the_image_of_the_fetch():
    pods = ModelDataAccess("image", pull_secrets=("one", "two"))
    assert pod(with_data(), pods)["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}]
    assert "imagePullSecrets" not in pod(a_model(), pods)
    own = annotated(with_data(), service_account="models")
    assert "imagePullSecrets" not in pod(own, pods)


def test_an_owner_is_known_by_its_uid():
    service = made(a_model()).service
    model = deployed_model(a_model())
    assert is_owned(service, model)
    other = a_model()
    other["metadata"]["uid"] = "another"
    assert not is_owned(service, deployed_model(other))
    assert not is_owned({"metadata": {}}, model)
