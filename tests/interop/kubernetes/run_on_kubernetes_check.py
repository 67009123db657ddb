"""The Helm chart in a cluster, by the commands of its page: gateways and an operator serve a model.

The API server is older than the chart, so Helm renders for a newer one, and kubectl applies that.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from partway import connect_sync
from tests.conftest import ROOT
from tests.interop.helm import helm
from tests.interop.kubernetes.cluster import IMAGES, Cluster
from tests.interop.kubernetes.control_plane import Refused, until
from tests.interop.served_api import blocks

pytestmark = pytest.mark.timeout(300)

LIFETIME, BEFORE_SIGTERM = 60, 2

#: What this cluster needs besides the page's values: short times, and no policy/v1.
FURTHER = f"""
streamLifetime: {LIFETIME}
gateway: {{endSeconds: {BEFORE_SIGTERM}}}
podDisruptionBudgets: false
networkPolicies: true
"""

#: The page's images, as the Dockerfile makes them.
_PAGE_IMAGES = {
    "registry.example/partway-gateway": IMAGES["partway"],
    "registry.example/partway": IMAGES["echo"],
}

#: Programs of the page, as far as they are not there: no engine, an old API server for Helm, and
#: nodes that forward no port. The real Helm renders, and the real kubectl does all else.
PROGRAMS = {
    "docker": """
[ "$1" = run ] || exit 0
shift 3
exec "$PYTHON" -m partway "$@"
""",
    "helm": """
if [ "$1" = uninstall ]; then exec kubectl delete --namespace models -f "$HERE/chart.yaml"; fi
for word in "$@"; do
    case "$word" in
    upgrade | --install | --create-namespace | --reuse-values) ;;
    *) words+=("$word") ;;
    esac
done
"$HELM" template "${words[@]}" --kube-version 1.37 --values "$HERE/further.yaml" >"$HERE/chart.yaml"
kubectl apply --namespace models -f "$HERE/chart.yaml"
""",
    "kubectl": """
case "$*" in
*port-forward*) exit 0 ;;
"apply -f -") set -- "$@" --validate=false ;; # the server is older than the rules in CEL
esac
exec "$KUBECTL" "$@"
""",
    "partway": """
exec "$PYTHON" -m partway "$@"
""",
}

ENDPOINT = "endpoints.aiplatform.gdc.goog/chat"


class Page:
    """Runs blocks of the page in a shell, against a cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        for name, script in PROGRAMS.items():
            program = folder / name
            program.write_text(f"#!/bin/bash\nset -euo pipefail\n{script}", "utf-8")
            program.chmod(0o755)
        (folder / "further.yaml").write_text(FURTHER, "utf-8")
        self._blocks = blocks("how-to/run-on-kubernetes.md", "sh")
        self._environment = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "HOME": str(folder),
            "HERE": str(folder),
            "PYTHON": sys.executable,
            "HELM": helm(),
            "KUBECTL": os.environ.get("KUBECTL") or shutil.which("kubectl") or "kubectl",
            "KUBECONFIG": str(cluster.kubeconfig),
        }

    def run(self, first: str, **variables: str) -> str:
        """Run the block that has a text, and return what it prints."""
        (script,) = (each for each in self._blocks if first in each)
        done = subprocess.run(
            ["bash", "-euxo", "pipefail", "-c", script],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=self._environment | variables,
            timeout=200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def cluster(cluster_programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that knows the page's images."""
    logs = tmp_path_factory.mktemp("cluster")
    with (
        Cluster.start(cluster_programs, logs, images=_PAGE_IMAGES) as cluster,
        cluster.namespace("models"),
    ):
        yield cluster


@pytest.fixture(scope="module")
def page(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return Page(cluster, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def installed(cluster: Cluster, page: Page) -> Cluster:
    """The cluster, after the page's section on installing."""
    for block in ("docker push", "--print-crds | kubectl apply", "helm upgrade partway --install"):
        page.run(block)
    return cluster


def objects(cluster: Cluster, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.ask("GET", path)["items"]
    return found


def gateways(cluster: Cluster) -> list[str]:
    """The URLs of the gateways that their slices call ready."""
    slices = objects(cluster, "/apis/discovery.k8s.io/v1beta1/namespaces/models/endpointslices")
    return [
        f"http://{address}:8090"
        for each in slices
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == "partway-gateways"
        for endpoint in each["endpoints"] or ()
        if endpoint["conditions"].get("ready") is not False
        for address in endpoint["addresses"]
    ]


def status(url: str) -> int:
    try:
        with urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def streamed(installed: Cluster, page: Page) -> str:
    """What the page's section on a stream prints."""
    until(lambda: len(gateways(installed)) == 2, "the gateways are not ready")
    return page.run("partway invoke", PARTWAY_URL=gateways(installed)[0])


@pytest.fixture
def ready(installed: Cluster, streamed: str) -> Cluster:
    """The cluster, with the page's model."""
    until(lambda: len(gateways(installed)) == 2, "the gateways are not ready")
    return installed


def test_the_page_leads_to_a_stream(streamed: str) -> None:
    assert "hello" in streamed.splitlines()


def echoes(url: str) -> bool:
    """Whether a gateway's endpoint has an instance, and its stream echoes."""
    if status(f"{url}/v2/models/chat/ready") != 200:
        return False
    with connect_sync(url, "chat") as stream:
        stream.send_text("hello")
        stream.end_input()
        return [part.payload for part in stream] == [b"hello"]


def test_each_gateway_streams(ready: Cluster) -> None:
    for url in gateways(ready):
        until(lambda url=url: echoes(url), f"{url} does not stream")


def metric(url: str, name: str) -> dict[str, float]:
    """The samples of a metric, by their labels."""
    with urlopen(f"{url}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if line.startswith(f"{name}{{"))
    return {labels.removeprefix(name): float(value) for labels, _, value in samples}


def test_the_operator_leaves_the_number_of_pods_to_kubectl(ready: Cluster) -> None:
    """And each gateway serves with all of them; an autoscaler finds their metric."""
    scaling = ("scale", "--namespace", "models", "deployment/echo")
    ready.kubectl(*scaling, "--replicas=3")
    url = gateways(ready)[0]

    def instances() -> int:
        return len(metric(url, "partway_instance_outstanding"))

    until(lambda: instances() == 3, "the gateway does not find the new pods")
    assert all('variant="echo"' in labels for labels in metric(url, "partway_instance_outstanding"))
    ready.kubectl(*scaling, "--replicas=1")
    until(lambda: instances() == 1, "the gateway keeps pods that are gone")


def test_both_operators_are_ready_and_miss_no_right(ready: Cluster) -> None:
    pods = [
        each
        for each in objects(ready, "/api/v1/namespaces/models/pods")
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == "operator"
    ]
    assert len(pods) == 2
    token = ready.token_of_account("models", "partway-operator")
    file = ready.logs / "operator-token"
    file.write_text(token, "utf-8")
    checking = [sys.executable, "-m", "partway", "operator", "--check", "--namespace", "models"]
    where = ["--server", ready.url, "--ca-file", str(ready.ca), "--token-file", str(file)]
    done = subprocess.run(
        [*checking, *where], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_a_gateway_that_is_told_to_stop_keeps_its_streams(ready: Cluster) -> None:
    """Its slice changes first; then it takes nothing new; its pod goes with its last stream."""
    url = gateways(ready)[0]
    until(lambda: echoes(url), "it does not stream")
    address = url.removeprefix("http://").partition(":")[0]
    path = "/api/v1/namespaces/models/pods"
    (pod,) = (each for each in objects(ready, path) if each["status"].get("podIP") == address)
    path = f"{path}/{pod['metadata']['name']}"
    assert pod["spec"]["terminationGracePeriodSeconds"] == LIFETIME + BEFORE_SIGTERM + 20
    with connect_sync(url, "chat") as stream:
        ready.ask("DELETE", path)
        until(lambda: url not in gateways(ready), "its slice calls it ready")
        until(lambda: status(f"{url}/readyz") == 503, "it does not drain")
        assert status(f"{url}/healthz") == 200
        stream.send_text("still here")
        assert stream.receive(timeout=10).payload == b"still here"
        until(lambda: len(gateways(ready)) == 2, "there is no other gateway")
        stream.end_input()
        assert list(stream) == []

    def is_gone() -> bool:
        try:
            ready.ask("GET", path)
        except Refused as refused:
            return refused.status == 404
        return False

    until(is_gone, "its pod stays without a stream")


#: Requests that no process of the chart makes.
NEVER = [
    ("GET", "/api/v1/namespaces/models/secrets"),
    ("GET", "/api/v1/namespaces/models/configmaps"),
    ("GET", "/api/v1/namespaces/default/services"),
    ("GET", "/api/v1/services"),
    ("GET", "/api/v1/nodes"),
    ("DELETE", "/api/v1/namespaces/models/services/echo"),
    ("DELETE", "/apis/apps/v1/namespaces/models/deployments/echo"),
]
#: Requests that only the operator makes.
NO_GATEWAY = [
    ("GET", "/api/v1/namespaces/models/pods"),
    ("GET", "/apis/apps/v1/namespaces/models/deployments"),
    ("GET", "/apis/coordination.k8s.io/v1/namespaces/models/leases"),
    ("GET", "/apis/prediction.aiplatform.gdc.goog/v1/namespaces/models/deployedmodels"),
]


@pytest.mark.parametrize(
    ("process", "method", "path"),
    [
        *(("gateway", *each) for each in NEVER + NO_GATEWAY),
        *(("operator", *each) for each in NEVER),
    ],
)
def test_an_account_may_do_no_more(
    installed: Cluster, process: str, method: str, path: str
) -> None:
    token = installed.token_of_account("models", f"partway-{process}")
    with pytest.raises(Refused) as refused:
        installed.ask(method, path, token=token)
    assert refused.value.status == 403, json.dumps(str(refused.value))


def test_the_page_removes_all(ready: Cluster, page: Page) -> None:
    page.run("helm uninstall")
    models = "namespaces/models"
    until(lambda: not objects(ready, f"/api/v1/{models}/pods"), "pods are left in the cluster")
    assert objects(ready, f"/apis/apps/v1/{models}/deployments") == []
    assert objects(ready, f"/api/v1/{models}/services") == []
