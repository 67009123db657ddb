"""Pods with open streams are annotated by an operator, which reads that from two gateways' pods.

Kubernetes heeds deletion costs from 1.21 on, which is newer than this API server: so the check ends
with the annotations.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from partway import connect_sync
from partway.gateway.operator.deletion_costs import COST
from partway.gateway.operator.limits import COST_FALLS_AFTER
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import until
from tests.interop.kubernetes.gateways import ROLE
from tests.interop.kubernetes.operator_check import a_model, an_endpoint
from tests.interop.kubernetes.operators import Operators

pytestmark = pytest.mark.timeout(300)

#: All that a gateway of Endpoint objects may do.
RIGHTS = [
    *ROLE,
    {"apiGroups": ["aiplatform.gdc.goog"], "resources": ["endpoints"], "verbs": ["list", "watch"]},
]
EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


def gateways() -> list[dict[str, Any]]:
    """Two gateways of Endpoint objects, and the Service that names them to the operator."""
    labels = {"app": "gateway"}
    container = {
        "name": "gateway",
        "image": "partway",
        "args": ["serve", "--config", "/etc/partway/partway.toml", "--insecure"],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8090}, "periodSeconds": 1},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/partway"}],
    }
    pod = {
        "serviceAccountName": "gateway",
        "containers": [container],
        "volumes": [{"name": "settings", "configMap": {"name": "gateway"}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    port = {"name": "http", "port": 8090}
    settings = "[cluster]\nendpoints = true\n"
    return [
        _object("v1", "ConfigMap", "gateway", data={"partway.toml": settings}),
        _object("apps/v1", "Deployment", "gateway", spec=spec),
        _object(
            "v1",
            "Service",
            "gateways",
            spec={"clusterIP": "None", "selector": labels, "ports": [port]},
        ),
    ]


def _object(version: str, kind: str, name: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **members}


class Pods:
    """The ready pods of a Deployment."""

    def __init__(self, cluster: Cluster, namespace: str, label: str) -> None:
        self._cluster, self._label = cluster, label
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def all(self) -> list[dict[str, Any]]:
        name, _, value = self._label.partition("=")
        return [
            each
            for each in self._cluster.ask("GET", self._path)["items"]
            if each["metadata"]["labels"].get(name) == value
            and any(
                condition["type"] == "Ready" and condition["status"] == "True"
                for condition in each["status"].get("conditions", ())
            )
        ]

    def annotations(self, name: str) -> list[str]:
        """The values of an annotation, in order; empty for a pod that has none."""
        return sorted(each["metadata"].get("annotations", {}).get(name, "") for each in self.all())


def is_ready(url: str) -> bool:
    with urlopen(f"{url}/v2/models/chat/ready", timeout=10) as answer:
        return bool(answer.status == 200)


def test_pods_with_streams_are_spared(
    cluster: Cluster, namespace: str, operators: Operators, tmp_path: Path
) -> None:
    cluster.account(namespace, "gateway", RIGHTS)
    items = [*gateways(), a_model("echo"), an_endpoint("echo")]
    file = tmp_path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}), "utf-8")
    operators.start("--gateways", "gateways")
    cluster.kubectl("apply", "--namespace", namespace, "-f", str(file))
    fronts = Pods(cluster, namespace, "app=gateway")
    models = Pods(cluster, namespace, "partway.dev/model=echo")
    until(lambda: models.all(), "the model is not ready")
    cluster.kubectl("scale", "--namespace", namespace, "deployment/echo", "--replicas=3")
    until(lambda: (len(fronts.all()), len(models.all())) == (2, 3), "not all pods are ready")
    urls = [f"http://{each['status']['podIP']}:8090" for each in fronts.all()]
    until(lambda: all(map(is_ready, urls)), "the gateways do not find the model")

    with ExitStack() as streams:
        for url in (urls[0], urls[1], urls[1]):
            streams.enter_context(connect_sync(url, "chat"))
        until(lambda: fronts.annotations(COST) == ["1", "2"], "the gateways' pods have no cost")
        busy = models.annotations(EVICT).count("false")
        assert busy >= 1
        assert busy + models.annotations(EVICT).count("") == 3
        assert models.annotations(COST).count("") == 3 - busy
    until(
        lambda: fronts.annotations(COST) == ["", ""] and models.annotations(COST) == ["", "", ""],
        "the pods stay busy",
        patience=2 * COST_FALLS_AFTER,
    )
    assert models.annotations(EVICT) == ["", "", ""]
    warnings = [line for line in operators.log().splitlines() if "WARNING" in line]
    assert all("gateways are not found" in line for line in warnings), "it starts before them"
