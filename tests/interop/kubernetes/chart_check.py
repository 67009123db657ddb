"""The chart on a real Kubernetes API server: from nothing to a stream through each gateway."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.interop.helm import template

from tests.interop.kubectl_contract import write_page
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import until

pytestmark = pytest.mark.timeout(300)

#: The one that the chart is rendered for.
NAMESPACE = "models"

#: Kubernetes 1.20 has no policy/v1.
VALUES = {
    "image": {"repository": "partway"},
    "gateway": {"insecure": True},
    "podDisruptionBudgets": False,
}


@pytest.fixture
def installed(cluster: Cluster, kinds: None, tmp_path: Path) -> Iterator[None]:
    rendered = template(values=VALUES)
    assert rendered.returncode == 0, rendered.stderr
    file = tmp_path / "chart.yaml"
    file.write_text(rendered.stdout, "utf-8")
    with cluster.namespace(NAMESPACE):
        cluster.kubectl("-n", NAMESPACE, "apply", "-f", str(file))
        yield


def test_from_nothing_to_a_stream(cluster: Cluster, installed: None, tmp_path: Path) -> None:
    def kubectl(*words: str) -> str:
        return cluster.kubectl("-n", NAMESPACE, *words)

    kubectl("wait", "--for=condition=Available", "--timeout=100s", "deployments", "--all")
    write_page(tmp_path)
    model, endpoint = str(tmp_path / "my-tf-model.yaml"), str(tmp_path / "chat.yaml")
    kubectl("apply", "-f", model, "-f", endpoint)
    kubectl("wait", "--for=condition=EndpointReady", "--timeout=100s", "-f", endpoint)
    selected = "app.kubernetes.io/component=gateway"
    gateways = json.loads(kubectl("get", "pods", "-l", selected, "-o", "json"))["items"]
    assert len(gateways) == 2
    for gateway in gateways:
        url = f"http://{gateway['status']['podIP']}:8090"
        until(partial(answers, url), f"{url} does not answer")


def answers(gateway: str) -> bool:
    """Whether the model answers through a gateway, which may have heard of it a moment later."""
    words = ["-m", "partway", "invoke", "--gateway", gateway, "chat", "--text", "hello"]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60)
    return done.stdout.strip() == "hello"
