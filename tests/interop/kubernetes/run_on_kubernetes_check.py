"""The Helm chart in a cluster, by the commands of its page: gateways and an operator serve a model.

The API server is older than the chart, so Helm renders for a newer one, and kubectl applies that.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from aiohttp import web

from partway import connect_sync
from tests.conftest import ROOT
from tests.gateway.object_server import ObjectServer
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
"""

#: The page's images, as the Dockerfile makes them.
_PAGE_IMAGES = {
    "registry.example/partway-gateway": IMAGES["partway"],
    "registry.example/partway": IMAGES["echo"],
}

#: Programs of the pages, as far as they are not there: no engine, an old API server for Helm, nodes
#: that forward no port, run no further command and show no log, no names of Services, and a store
#: of objects on this machine. The real Helm renders, and the real kubectl does all else.
PROGRAMS = {
    "docker": """
[ "$1" = run ] || exit 0
shift 3
exec "$PYTHON" -m partway "$@"
""",
    "helm": """
if [ "$1" = uninstall ]; then exec kubectl delete --namespace models -f "$HERE/chart.yaml"; fi
while [ $# -gt 0 ]; do
    case "$1" in
    upgrade | --install | --create-namespace | --reset-then-reuse-values) ;;
    --set | --set-file)
        printf '%s\\n' "$1" "$2" >>"$HERE/values-of-before"
        shift
        ;;
    *) words+=("$1") ;;
    esac
    shift
done
mapfile -t values <"$HERE/values-of-before"
further=(--kube-version 1.37 --values "$HERE/further.yaml")
"$HELM" template "${words[@]}" "${further[@]}" "${values[@]}" >"$HERE/chart.yaml"
kubectl apply --namespace models -f "$HERE/chart.yaml"
""",
    "kubectl": """
case "$*" in
"apply -f -") set -- "$@" --validate=false ;; # the server is older than the rules in CEL
*port-forward* | *" logs "* | *" exec "*) exit 0 ;;
*"secret generic transform"*) set -- "$@" $STORE ;;
*"apply -f -") exec "$KUBECTL" "$@" < <(sed "s#http://partway-gateway:8090#${PARTWAY_URL:-}#") ;;
esac
exec "$KUBECTL" "$@"
""",
    "partway": """
exec "$PYTHON" -m partway "$@"
""",
}

ENDPOINT = "endpoints.aiplatform.gdc.goog/chat"


class Page:
    """Runs blocks of the pages in a shell, against a cluster.

    Attributes:
        folder: the current folder of their commands, which looks like a checkout.
    """

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        for name, script in PROGRAMS.items():
            program = folder / name
            program.write_text(f"#!/bin/bash\nset -euo pipefail\n{script}", "utf-8")
            program.chmod(0o755)
        (folder / "further.yaml").write_text(FURTHER, "utf-8")
        self.folder = folder
        (folder / "docs").symlink_to(ROOT / "docs")
        pages = ("how-to/run-on-kubernetes.md", "how-to/transform.md")
        self._blocks = [block for page in pages for block in blocks(page, "sh")]
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
            cwd=self.folder,
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


def addresses(cluster: Cluster, service: str) -> set[str]:
    """The pods of a Service that its slices call ready."""
    slices = objects(cluster, "/apis/discovery.k8s.io/v1beta1/namespaces/models/endpointslices")
    return {
        address
        for each in slices
        if each["metadata"]["labels"]["kubernetes.io/service-name"] == service
        for endpoint in each["endpoints"] or ()
        if endpoint["conditions"].get("ready") is not False
        for address in endpoint["addresses"]
    }


def gateways(cluster: Cluster) -> list[str]:
    """The URLs of the gateways that are ready."""
    return [f"http://{each}:8090" for each in sorted(addresses(cluster, "partway-gateways"))]


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


@contextmanager
def objects_at(host: str) -> Iterator[tuple[ObjectServer, int]]:
    """A store of objects that pods reach, and its port."""
    store = ObjectServer(key_id="KEY/")
    application = web.Application(client_max_size=2**20)
    application.router.add_route("*", "/{path:.*}", store.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    loop = asyncio.new_event_loop()

    async def listen() -> int:
        await runner.setup()
        await web.TCPSite(runner, host, 0).start()
        port: int = runner.addresses[0][1]
        return port

    serving = Thread(target=loop.run_forever)
    serving.start()
    try:
        yield store, asyncio.run_coroutine_threadsafe(listen(), loop).result(30)
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        serving.join()
        loop.close()


def test_a_job_transforms_files_with_all_pods(ready: Cluster, page: Page) -> None:
    """By the section of the page on batch transform; the gateway finds the pods."""
    scaling = ("scale", "--namespace", "models", "deployment/echo")
    ready.kubectl(*scaling, "--replicas=3")
    url = gateways(ready)[0]
    until(lambda: len(metric(url, "partway_instance_outstanding")) == 3, "it has not three")
    until(lambda: len(addresses(ready, "echo")) == 3, "there are no three pods")
    pods = addresses(ready, "echo")

    def asked() -> dict[str, float]:
        """The requests that each pod has had."""
        return {
            pod: metric(f"http://{pod}:8080", "partway_container_begun_total")['{kind="request"}']
            for pod in pods
        }

    before = asked()
    questions = {f"questions/{number:02}.csv": f"{number},1\n".encode() for number in range(60)}
    host = ready.url.removeprefix("https://").replace(".0.2:6443", ".0.1")
    with objects_at(host) as (store, port):
        store.buckets["models"] = dict(questions)
        variables = {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ALLOW_HTTP": "true"}
        literals = " ".join(f"--from-literal={name}={value}" for name, value in variables.items())
        page.run("job/transform", PARTWAY_URL=url, STORE=literals)
    (log,) = ready.logs.glob("models.transform-*.log")
    assert "60 files: 60 done; 60 records" in log.read_text("utf-8")
    answers = {
        key.replace("answers", "questions").removesuffix(".out"): value
        for key, value in store.buckets["models"].items()
        if key.startswith("answers/")
    }
    assert answers == questions
    assert all(found > before[pod] for pod, found in asked().items())
    ready.kubectl(*scaling, "--replicas=1")
    ready.kubectl("delete", "--namespace", "models", "job/transform")


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


PRINCIPALS = """
[[principals]]
name = "caller"
tokens = ["a-token-of-sixteen-characters-or-more"]
"""


def test_the_page_says_how_a_model_is(ready: Cluster, page: Page) -> None:
    said = page.run("primaryCondition")
    assert '"reason":"Ready"' in said.replace(" ", "")
    assert "app.kubernetes.io/managed-by=partway-operator" in said


def test_the_page_changes_an_installation(ready: Cluster, page: Page) -> None:
    """Each of its upgrades keeps the values of those before."""
    page.run("--replicas=3")
    until(lambda: len(gateways(ready)) == 3, "there are no three gateways")
    until(lambda: len(addresses(ready, "echo")) == 3, "there are no three pods of the model")
    (page.folder / "principals.toml").write_text(PRINCIPALS, "utf-8")
    page.run("image.tag=")
    page.run("streamLifetime=")
    page.run("cat >settings.toml")
    assert ready.url.split("/")[2].partition(":")[0] in page.run("modelsNotTo")
    page.run("operatorFrom")
    page.run("create secret generic principals")

    def is_closed() -> bool:
        """Whether no gateway answers a stranger."""
        urls = gateways(ready)
        return len(urls) == 3 and {status(f"{url}/v2/models/chat") for url in urls} == {401}

    until(is_closed, "a stranger may use a gateway")
    pods = [
        each["spec"]["containers"][0]
        for each in objects(ready, "/api/v1/namespaces/models/pods")
        if each["metadata"]["labels"].get("app.kubernetes.io/component") == "gateway"
        and "deletionTimestamp" not in each["metadata"]
    ]
    assert {each["image"] for each in pods} == {"registry.example/partway-gateway:0.1.1"}
    lifetime = {"name": "PARTWAY_LIFETIME", "value": "3600"}
    assert all(lifetime in each["env"] for each in pods)
    settings = ready.ask("GET", "/api/v1/namespaces/models/configmaps/partway-gateway")["data"]
    assert "max_streams = 20000" in settings["partway.toml"]
    url = gateways(ready)[0]
    with connect_sync(url, "chat", token="a-token-of-sixteen-characters-or-more") as stream:
        stream.send_text("hello")
        stream.end_input()
        assert [part.payload for part in stream] == [b"hello"]


def test_the_page_removes_all(installed: Cluster, page: Page) -> None:
    page.run("helm uninstall")
    models = "namespaces/models"
    until(lambda: not objects(installed, f"/api/v1/{models}/pods"), "pods are left in the cluster")
    assert objects(installed, f"/apis/apps/v1/{models}/deployments") == []
    assert objects(installed, f"/api/v1/{models}/services") == []
