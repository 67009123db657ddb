"""The cluster of these checks itself: what its hollow nodes do as real ones would."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from tests.conftest import ROOT
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import Refused, until
from tests.interop.kubernetes.hosts import NAMESPACES
from tests.interop.kubernetes.teardown import namespaces_of

pytestmark = pytest.mark.timeout(300)

Object = dict[str, Any]

PROBE = {"httpGet": {"path": "/ping", "port": 8080}, "periodSeconds": 1}
#: Where the pod has the test's folder.
GIVEN = {"name": "given", "mountPath": "/given"}
UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 1,
}


def shell(script: str, **more: Any) -> Object:
    """A container that runs a script."""
    return {"name": "shell", "image": "echo", "command": ["sh", "-c", script], **more}


class Pods:
    """The pods of a namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"

    def make(self, name: str, *containers: Object, **spec: Any) -> None:
        pod = {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}
        self._cluster.ask("POST", self._path, pod)

    def status(self, name: str) -> Object:
        return dict(self._cluster.ask("GET", f"{self._path}/{name}")["status"])

    def ready(self, name: str) -> bool:
        conditions = self.status(name).get("conditions", ())
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def until(self, name: str, met: Any) -> Object:
        until(lambda: met(self.status(name)), f"pod {name} is not as awaited")
        return self.status(name)

    def delete(self, name: str) -> float:
        """The seconds until it is gone."""
        begun = time.monotonic()
        self._cluster.ask("DELETE", f"{self._path}/{name}")
        until(lambda: name not in self.names(), f"pod {name} is not deleted")
        return time.monotonic() - begun

    def names(self) -> list[str]:
        listed = self._cluster.ask("GET", self._path)["items"]
        return [each["metadata"]["name"] for each in listed]


@pytest.fixture
def pods(cluster: Cluster, namespace: str) -> Pods:
    return Pods(cluster, namespace)


@pytest.fixture
def given(tmp_path: Path) -> Object:
    """Members of a pod that has the test's folder as a volume."""
    return {"volumes": [{"name": "given", "hostPath": {"path": str(tmp_path)}}]}


def state(status: Object, kind: str) -> Object:
    """The state of its only container, if it is of this kind."""
    found = status.get("containerStatuses", [{"state": {}}])[0]["state"]
    return dict(found.get(kind, {}))


def phase(name: str) -> Any:
    return lambda status: status.get("phase") == name


def test_an_echo_container_serves_at_its_address(pods: Pods) -> None:
    pods.make("echo", {"name": "model", "image": "echo", "readinessProbe": PROBE})
    until(lambda: pods.ready("echo"), "the pod is not ready")
    status = pods.status("echo")
    with urlopen(f"http://{status['podIP']}:8080/ping", timeout=10) as response:
        assert response.status == 200
    assert status["phase"] == "Running"
    assert pods.delete("echo") < 10


def test_a_failing_probe_takes_it_out_and_back(pods: Pods, tmp_path: Path, given: Object) -> None:
    switch = tmp_path / "ready"
    switch.touch()
    probe = {
        "exec": {"command": ["test", "-e", "/given/ready"]},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    container = shell("exec sleep 1000", readinessProbe=probe, volumeMounts=[GIVEN])
    pods.make("probed", container, terminationGracePeriodSeconds=0, **given)
    until(lambda: pods.ready("probed"), "the pod is not ready")
    switch.unlink()
    until(lambda: not pods.ready("probed"), "the pod is still ready")
    switch.touch()
    until(lambda: pods.ready("probed"), "the pod is not ready again")
    assert pods.status("probed")["containerStatuses"][0]["restartCount"] == 0


def test_a_container_that_ends_is_started_again(pods: Pods) -> None:
    pods.make("ends", shell("exit 3"))
    status = pods.until(
        "ends", lambda status: state(status, "waiting").get("reason") == "CrashLoopBackOff"
    )
    [container] = status["containerStatuses"]
    assert container["restartCount"] == 1
    assert container["lastState"]["terminated"]["exitCode"] == 3
    pods.make("never", shell("exit 3"), restartPolicy="Never")
    assert state(pods.until("never", phase("Failed")), "terminated")["exitCode"] == 3
    pods.make("once", shell("exit 0"), restartPolicy="OnFailure")
    pods.until("once", phase("Succeeded"))


def test_an_unknown_image_is_not_pulled(pods: Pods) -> None:
    pods.make("unknown", {"name": "model", "image": "registry.example/none:1"})
    pods.until("unknown", lambda status: state(status, "waiting").get("reason") == "ErrImagePull")
    pods.delete("unknown")


def test_its_end_waits_for_the_hook_and_the_grace_period(
    pods: Pods, tmp_path: Path, given: Object
) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >>/given/order"]}}}
    script = "trap 'echo term >>/given/order{}' TERM; : >/given/up; while :; do sleep 0.1; done"
    up = tmp_path / "up"
    pods.make(
        "obeys", shell(script.format("; exit"), lifecycle=hook, volumeMounts=[GIVEN]), **given
    )
    until(up.exists, "the container does not run")
    assert pods.delete("obeys") < 20
    assert (tmp_path / "order").read_text().split() == ["hook", "term"]
    up.unlink()
    pods.make(
        "stays",
        shell(script.format(""), volumeMounts=[GIVEN]),
        terminationGracePeriodSeconds=3,
        **given,
    )
    until(up.exists, "the container does not run")
    assert pods.delete("stays") > 2.5


def test_variables_volumes_and_init_containers(
    cluster: Cluster, namespace: str, pods: Pods
) -> None:
    config = {
        "metadata": {"name": "settings"},
        "data": {"partway.toml": "port = 1", "word": "hello"},
    }
    cluster.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", config)
    model = {"name": "model", "mountPath": "/opt/ml/model"}
    env = [
        {"name": "WORD", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "word"}}},
        {"name": "SELF", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "SAID", "value": "$(WORD)-$(SELF)"},
    ]
    judge = """
        set -ex
        [ "$SAID" = hello-built ]
        [ "$(cat /opt/ml/model/weights)" = fetched ]
        [ "$(cat /etc/partway/partway.toml)" = "port = 1" ]
        [ -s /var/run/secrets/kubernetes.io/serviceaccount/token ]
        [ -n "$KUBERNETES_SERVICE_HOST" ]
        [ "$(hostname)" = built ]
        echo mine >/etc/hostname
    """
    pods.make(
        "built",
        shell(
            judge, env=env, volumeMounts=[model, {"name": "settings", "mountPath": "/etc/partway"}]
        ),
        initContainers=[
            {**shell("echo fetched >/opt/ml/model/weights", volumeMounts=[model]), "name": "fetch"}
        ],
        volumes=[
            {"name": "model", "emptyDir": {}},
            {"name": "settings", "configMap": {"name": "settings"}},
        ],
        restartPolicy="Never",
    )
    status = pods.until("built", lambda status: status.get("phase") in {"Succeeded", "Failed"})
    assert status["phase"] == "Succeeded", cluster.logs
    assert Path("/etc/hostname").read_text() != "mine\n"


def test_a_root_that_is_read_only(pods: Pods) -> None:
    writes = "! touch /etc/new && touch /scratch/new"
    pods.make(
        "reads",
        shell(
            writes,
            securityContext={"readOnlyRootFilesystem": True},
            volumeMounts=[{"name": "scratch", "mountPath": "/scratch"}],
        ),
        volumes=[{"name": "scratch", "emptyDir": {}}],
        restartPolicy="Never",
    )
    status = pods.until("reads", lambda status: status.get("phase") in {"Succeeded", "Failed"})
    assert status["phase"] == "Succeeded"


def test_a_node_is_cut_off_and_mended(cluster: Cluster, namespace: str, pods: Pods) -> None:
    labels = {"app": "echo"}
    pod = {
        "containers": [{"name": "model", "image": "echo", "readinessProbe": PROBE}],
        "tolerations": [UNREACHABLE],
    }
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    cluster.ask("POST", path, {"metadata": {"name": "echo"}, "spec": spec})
    until(lambda: any(pods.ready(each) for each in pods.names()), "no pod is ready")
    [first] = pods.names()
    node = cluster.nodes[
        cluster.ask("GET", f"/api/v1/namespaces/{namespace}/pods/{first}")["spec"]["nodeName"]
    ]
    node.cut()
    try:
        until(lambda: not pods.ready(first), "the lost pod is still ready")
        until(lambda: any(pods.ready(each) for each in pods.names()), "the pod is not replaced")
    finally:
        node.mend()
    # Its kubelet hears of the deletion now.
    until(lambda: first not in pods.names(), "the first pod is still there")
    assert len(pods.names()) == 1


def test_an_account_has_the_rights_of_its_role(cluster: Cluster, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    with pytest.raises(Refused, match="403"):
        cluster.ask("GET", path, token=cluster.token_of_account(namespace, "default"))
    with pytest.raises(Refused, match="401"):
        cluster.ask("GET", path, token="nobody's")
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}
    token = cluster.account(namespace, "reader", [rule])
    until(lambda: allowed(cluster, path, token), "the role is not in force")
    with pytest.raises(Refused, match="403"):
        cluster.ask("DELETE", f"{path}/any", token=token)


def allowed(cluster: Cluster, path: str, token: str) -> bool:
    try:
        cluster.ask("GET", path, token=token)
    except Refused:
        return False
    return True


def test_the_api_server_is_stopped_for_a_while(cluster: Cluster) -> None:
    cluster.api_server.freeze()
    try:
        with pytest.raises(OSError):
            cluster.ask("GET", "/readyz", timeout=1)
    finally:
        cluster.api_server.thaw()
    until(lambda: cluster.is_settled(), "the nodes are not ready again")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_harness_that_is_killed(
    cluster_programs: Path, tmp_path: Path, number: signal.Signals
) -> None:
    words = ["-m", "tests.interop.kubernetes", "--nodes", "1", "--logs", str(tmp_path)]
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, cwd=ROOT) as harness:
        assert harness.stdout is not None
        harness.stdout.readline()
        kubeconfig = Path(harness.stdout.readline().decode().strip().partition("=")[2])
        server = json.loads(kubeconfig.read_text("utf-8"))["clusters"][0]["cluster"]["server"]
        network = kubeconfig.parent.name.partition("-")[0]
        assert namespaces_of(network)
        assert server.startswith("https://10.")
        harness.send_signal(number)
    until(lambda: not namespaces_of(network), f"namespaces are left in {NAMESPACES}")
    until(lambda: not kubeconfig.parent.exists(), f"{kubeconfig.parent} is left")
