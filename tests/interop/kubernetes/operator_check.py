"""partway operator on a real API server: words, times, kills, two operators, least rights."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.operator.cluster_check import NEEDED
from tests.gateway.operator.a_cluster import labels_of_slice
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import Refused, until
from tests.interop.kubernetes.killing_proxy import KillingProxy

pytestmark = pytest.mark.timeout(300)

Object = dict[str, Any]

MODELS = "/apis/prediction.aiplatform.gdc.goog/v1"
ENDPOINTS = "/apis/aiplatform.gdc.goog/v1"

#: The Service of all gateways.
GATEWAYS = "gateways"


def a_model(
    name: str = "my-tf-model", image: str = "echo", endpoint: str = "chat", **more: Any
) -> Object:
    return {
        "apiVersion": "prediction.aiplatform.gdc.goog/v1",
        "kind": "DeployedModel",
        "metadata": {"name": name, **more},
        "spec": {
            "endpointPath": f"endpoints/{endpoint}",
            "modelSpec": {"modelContainerSpec": {"imageURI": image}},
        },
    }


def an_endpoint(*models: str, name: str = "chat") -> Object:
    shares = [100 // len(models)] * len(models)
    return {
        "apiVersion": "aiplatform.gdc.goog/v1",
        "kind": "Endpoint",
        "metadata": {"name": name},
        "spec": {
            "destinations": [
                {"serviceRef": {"kind": "DeployedModel", "name": each}, "trafficPercentage": share}
                for each, share in zip(models, shares, strict=True)
            ]
        },
    }


class Operators:
    """Processes of partway operator with the rights of its role alone."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace, self.folder = cluster, namespace, folder
        self.server = cluster.url
        self.processes: list[subprocess.Popen[str]] = []
        self._allow()
        self.token = folder / "token"
        self.token.write_text(cluster.token_of_account(namespace, "operator"))

    def _allow(self) -> None:
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": "operator"}}
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
            for (group, resource), verbs in NEEDED.items()
        ]
        account = {"kind": "ServiceAccount", "name": "operator", "namespace": self.namespace}
        to = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "operator"}
        path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{self.namespace}"
        core = f"/api/v1/namespaces/{self.namespace}"
        self.cluster.ask("POST", f"{core}/serviceaccounts", {"metadata": {"name": "operator"}})
        self.cluster.ask("POST", f"{path}/roles", {**role, "kind": "Role", "rules": rules})
        binding = {**role, "kind": "RoleBinding", "subjects": [account], "roleRef": to}
        self.cluster.ask("POST", f"{path}/rolebindings", binding)

    def command(self, *more: str) -> list[str]:
        return [
            *(sys.executable, "-m", "partway", "operator", "--server", self.server),
            *("--token-file", str(self.token), "--ca-file", str(self.cluster.ca)),
            *("--namespace", self.namespace, "--port", "0", "--gateways", GATEWAYS, *more),
        ]

    def start(self) -> subprocess.Popen[str]:
        log = (self.folder / f"operator-{len(self.processes)}.log").open("w")
        process = subprocess.Popen(self.command(), stdout=subprocess.PIPE, stderr=log, text=True)
        self.processes.append(process)
        assert process.stdout is not None
        assert "listening" in process.stdout.readline()
        return process

    def log(self, number: int = 0) -> str:
        return (self.folder / f"operator-{number}.log").read_text()

    @property
    def lease(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/partway-operator"

    def holder(self) -> str:
        try:
            return str(self.cluster.ask("GET", self.lease)["spec"].get("holderIdentity", ""))
        except Refused:
            return ""


@pytest.fixture
def operators(cluster: Cluster, namespace: str, tmp_path: Path, kinds: None) -> Iterator[Operators]:
    operators = Operators(cluster, namespace, tmp_path)
    yield operators
    for each in operators.processes:
        if each.poll() is None:
            each.kill()
        each.wait()
        assert each.stdout is not None
        each.stdout.close()


class Applied:
    """The objects of a namespace, as kubectl sees them."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self._cluster, self._namespace, self._folder = cluster, namespace, folder

    def apply(self, *objects: Object) -> None:
        file = self._folder / "applied.json"
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        self.kubectl("apply", "-f", str(file))

    def kubectl(self, *words: str) -> str:
        return self._cluster.kubectl("-n", self._namespace, *words)

    def get(self, path: str) -> Object:
        path = re.sub(r"/v1(beta1)?/", rf"\g<0>namespaces/{self._namespace}/", path, count=1)
        return dict(self._cluster.ask("GET", path))

    def model(self, name: str = "my-tf-model") -> Object:
        found = self.get(f"{MODELS}/deployedmodels/{name}")
        return dict(found.get("status", {}).get("primaryCondition", {}))

    def endpoint(self, name: str = "chat") -> Object:
        found = self.get(f"{ENDPOINTS}/endpoints/{name}")
        return dict(found.get("status", {}).get("conditions", [{}])[0])

    def until_model(self, reason: str, name: str = "my-tf-model") -> Object:
        until(lambda: self.model(name).get("reason") == reason, f"{name} is not {reason}")
        return self.model(name)

    def deployments(self) -> list[Object]:
        return list(self.get("/apis/apps/v1/deployments")["items"])

    def services(self) -> list[Object]:
        return list(self.get("/api/v1/services")["items"])


@pytest.fixture
def applied(cluster: Cluster, namespace: str, tmp_path: Path) -> Applied:
    return Applied(cluster, namespace, tmp_path)


def test_the_documented_commands_and_words(operators: Operators, applied: Applied) -> None:
    operators.start()
    until(operators.holder, "no operator leads")
    begun = time.monotonic()
    applied.apply(a_model(), an_endpoint("my-tf-model"))
    until(lambda: applied.endpoint().get("status") == "True", "the endpoint is not ready")
    seconds = time.monotonic() - begun
    print(f"apply to ready: {seconds:.2f} s")
    said = applied.kubectl(
        *("get", "deployedmodel", "my-tf-model", "-o", "jsonpath={.status.primaryCondition}")
    )
    words = json.loads(said)
    assert (words["message"], words["reason"]) == ("DeployedModel is ready", "Ready")
    assert (words["resourceName"], words["type"]) == ("my-tf-model", "DeployedModel")
    path = '{$.status.conditions[?(@.type == "EndpointReady")]}'
    said = applied.kubectl(
        *("get", "endpoints.aiplatform.gdc.goog", "chat", "-o", f"jsonpath={path}")
    )
    words = json.loads(said)
    assert (words["message"], words["reason"]) == ("Endpoint Ready", "ResourceReady")
    assert seconds < 5


def test_what_is_missing_is_said(operators: Operators) -> None:
    done = subprocess.run(operators.command("--check"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "can be kept" in done.stdout
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{operators.namespace}"
    operators.cluster.ask("DELETE", f"{path}/rolebindings/operator")
    until(
        lambda: subprocess.run(operators.command("--check"), capture_output=True).returncode == 1,
        "the role is still there",
    )


def test_two_operators(operators: Operators, applied: Applied) -> None:
    first = operators.start()
    until(operators.holder, "no operator leads")
    holder = operators.holder()
    operators.start()
    first.send_signal(signal.SIGKILL)
    begun = time.monotonic()
    applied.apply(a_model())
    until(lambda: operators.holder() not in ("", holder), "nobody has taken over")
    print(f"takeover after a kill: {time.monotonic() - begun:.1f} s")
    assert time.monotonic() - begun < 15
    applied.until_model("Ready")
    begun = time.monotonic()
    third = operators.start()
    operators.processes[1].send_signal(signal.SIGTERM)
    assert operators.processes[1].wait(10) == 0
    until(lambda: " leading " in operators.log(2), "nobody has taken over")
    print(f"takeover after SIGTERM: {time.monotonic() - begun:.1f} s")
    assert third.poll() is None


@pytest.mark.timeout(400)
def test_killed_at_any_moment(operators: Operators, applied: Applied) -> None:
    """Two operators; the one that acts is killed again and again, soon after a change."""
    operators.start()
    for number, seconds in enumerate((0.0, 0.1, 0.2, 0.4)):
        operators.start()
        until(operators.holder, "no operator leads")
        applied.apply(a_model(f"model-{number}"), an_endpoint(f"model-{number}"))
        time.sleep(seconds)  # a moment of its own, and nothing that is waited for
        operators.processes[number].kill()
    names = [f"model-{number}" for number in range(4)]
    for name in names:
        applied.until_model("Ready", name)
    until(lambda: applied.endpoint().get("status") == "True", "the endpoint is not ready")
    for made in (applied.deployments(), applied.services()):
        assert [each["metadata"]["name"] for each in made] == names
    assert [each["metadata"]["generation"] for each in applied.deployments()] == [1] * 4


#: The objects of one DeployedModel.
KINDS = (
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1beta1/poddisruptionbudgets",
    "/api/v1/services",
    "/api/v1/pods",
)


def made_for(applied: Applied, name: str) -> Object:
    """What is left of one apply, without what differs from one to another."""
    made: Object = {"statuses": [applied.model(name), applied.endpoint(name)]}
    for kind in KINDS:
        made[kind] = [
            (each["metadata"].get("generation"), each["metadata"]["labels"], each["spec"])
            for each in applied.get(kind)["items"]
            if each["metadata"]["labels"].get("partway.dev/model") == name
        ]
        if not kind.endswith("deployments"):
            made[kind] = len(made[kind])
    times = r"""("(?:first|last)[A-Za-z]*Time"): "[^"]*\""""
    return dict(json.loads(re.sub(times, r"\1: 0", json.dumps(made).replace(name, "NAME"))))


def test_killed_at_every_write(operators: Operators, applied: Applied) -> None:
    """The write is made, and its answer does not come: the next operator goes on."""
    begun = time.monotonic()
    with KillingProxy.before(operators.cluster) as proxy:
        operators.server = proxy.url
        process = operators.start()
        expected = None
        for number in count():  # at 0 none is killed
            until(operators.holder, "no operator leads")
            name = f"model-{number}"
            ready = partial(is_ready, applied, name)
            proxy.kill_at(number, process.pid)
            applied.apply(a_model(name, endpoint=name), an_endpoint(name, name=name))
            until(partial(is_killed_or, ready, proxy, number), f"{name} is not ready")
            if proxy.has_killed.is_set():
                process.wait()
                operators.cluster.ask("DELETE", operators.lease)  # as if its time were over
                process = operators.start()
            until(ready, f"{name} is not ready")
            made = made_for(applied, name)
            expected = expected or made
            assert made == expected, proxy.writes
            if number and not proxy.has_killed.is_set():
                break  # there are fewer writes
    assert [expected[each] for each in KINDS[1:]] == [1, 1, 1, 1]
    assert number > 6, proxy.writes
    print(f"killed at {number - 1} writes: {time.monotonic() - begun:.0f} s")


def is_killed_or(ready: Callable[[], bool], proxy: KillingProxy, number: int) -> bool:
    is_to_come = 0 < number <= len(proxy.writes)  # it is being made
    return proxy.has_killed.is_set() or (not is_to_come and ready())


def is_ready(applied: Applied, name: str) -> bool:
    return (
        applied.endpoint(name).get("message") == "Endpoint Ready"  # of all its models
        and applied.model(name).get("reason") == "Ready"
    )


def test_why_a_container_crashes_is_said(operators: Operators, applied: Applied) -> None:
    operators.start()
    applied.apply(a_model(image="broken"))
    words = "container model ended with exit code 3: the model has no GPU"
    until(lambda: words in applied.model().get("message", ""), "the crash is not said")
    until(lambda: "CrashLoopBackOff" in applied.model()["message"], "the back-off is not said")
    assert (
        applied.model()["message"] == f"Its instances are being started: CrashLoopBackOff: {words}"
    )


def test_another_version_and_a_deletion(operators: Operators, applied: Applied) -> None:
    operators.start()
    applied.apply(a_model(), an_endpoint("my-tf-model"))
    applied.until_model("Ready")
    applied.apply(a_model(annotations={"partway.dev/limits": "memory=1Gi"}))
    until(
        lambda: applied.deployments()[0]["spec"]["template"]["spec"]["containers"][0].get(
            "resources"
        ),
        "the limits are not there",
    )
    applied.kubectl("scale", "deployment", "my-tf-model", "--replicas=2")
    until(lambda: applied.deployments()[0]["status"].get("availableReplicas") == 2, "2 are wanted")
    applied.apply(a_model(image="nowhere"))
    until(lambda: "Progressing" in applied.model()["reason"], "no progress")
    until(lambda: "ErrImagePull" in applied.model()["message"], "the pull's fault is not said")
    assert applied.endpoint()["status"] == "True"
    applied.kubectl("delete", "deployedmodel", "my-tf-model")
    until(lambda: not applied.deployments() and not applied.services(), "something is left")


def test_objects_that_the_schema_lets_through(operators: Operators, applied: Applied) -> None:
    operators.start()
    applied.apply(a_model(annotations={"partway.dev/gpus": "1"}))
    said = applied.until_model("Refused")
    assert "metadata.annotations.partway.dev/gpus: unknown" in said["message"]
    wrong = a_model("other")
    wrong["spec"]["modelSpec"]["modelContainerSpec"]["command"] = ["sh"]
    with pytest.raises(AssertionError, match="command"):
        applied.apply(wrong)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "taken"}}
    applied.apply({**service, "spec": {"ports": [{"port": 80}]}}, a_model("taken"))
    said = applied.until_model("Refused", "taken")
    assert "there is a Service taken that the operator did not make" in said["message"]
    applied.kubectl("delete", "service", "taken")
    applied.until_model("Ready", "taken")


def have_gateways(operators: Operators, *pods: str) -> None:
    """Have the slice of the gateways' Service, as if these were its ready pods."""
    path = f"/apis/discovery.k8s.io/v1beta1/namespaces/{operators.namespace}/endpointslices"
    made = {
        "metadata": {"name": GATEWAYS, "labels": labels_of_slice(GATEWAYS)},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"10.0.0.{number}"], "targetRef": {"kind": "Pod", "name": pod}}
            for number, pod in enumerate(pods, 1)
        ],
    }
    operators.cluster.ask("POST", path, made)


def test_a_pod_that_two_gateways_cannot_reach(operators: Operators, applied: Applied) -> None:
    operators.start()
    have_gateways(operators, "gateway-1", "gateway-2")
    applied.apply(a_model(annotations={"partway.dev/replicas": "3"}))

    def all_pods() -> dict[str, Object]:
        return {each["metadata"]["name"]: each for each in applied.get("/api/v1/pods")["items"]}

    def ready_pods() -> dict[str, Object]:
        return {
            name: each
            for name, each in all_pods().items()
            if "deletionTimestamp" not in each["metadata"]
            and any(
                (it["type"], it["status"]) == ("Ready", "True")
                for it in each["status"].get("conditions", ())
            )
        }

    until(lambda: len(ready_pods()) == 3, "three pods are not ready")
    before = ready_pods()
    lost = next(iter(before.values()))
    name, node = lost["metadata"]["name"], lost["spec"]["nodeName"]
    spec = {"pod": name, "podUID": lost["metadata"]["uid"], "since": "2026-12-01T00:00:00Z"}
    path = f"/apis/partway.dev/v1/namespaces/{operators.namespace}/unreachablepods"
    operators.cluster.nodes[node].cut()
    try:
        begun = time.monotonic()
        for gateway in ("gateway-1", "gateway-2", "nobody"):
            report = {
                "apiVersion": "partway.dev/v1",
                "kind": "UnreachablePod",
                "metadata": {"name": f"{name}.{gateway}"},
                "spec": {**spec, "gateway": gateway},
            }
            operators.cluster.ask("POST", path, report)
        until(lambda: len(ready_pods().keys() - before.keys()) == 1, "no other pod is ready")
        print(f"from report to replacement: {time.monotonic() - begun:.1f} s")
        (other,) = (each for key, each in ready_pods().items() if key not in before)
        assert other["spec"]["nodeName"] != node

        def is_labelled() -> bool:
            return "partway.dev/unreachable" in all_pods()[name]["metadata"]["labels"]

        assert is_labelled(), "the scheduler heeds it"
        until(lambda: not is_labelled(), "its node is closed for ever", patience=90)
        print(f"from report to the node's release: {time.monotonic() - begun:.1f} s")
        assert len(ready_pods()) == 3
        left = applied.get("/apis/partway.dev/v1/unreachablepods")["items"]
        assert not left, "no gateway renews them"
    finally:
        operators.cluster.nodes[node].mend()
