"""Gateways as pods of a cluster, their Service, the operator, and models behind them.

::

    with Cluster.start(programs(), logs, nodes=NODES, times=DEFAULT_TIMES) as cluster:
        with several_gateways(cluster, "models", folder) as scene:
            scene.serve("chat", "echo")
            scene.gateways[0].kill()
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from partway.protocol.signatures.verification import Credentials
from tests.interop.kubernetes.cluster import Cluster, NodePlan
from tests.interop.kubernetes.control_plane import Refused, until
from tests.interop.kubernetes.hosts import NAMESPACES
from tests.interop.kubernetes.operators import Operators, define_kinds
from tests.interop.kubernetes.teardown import processes_in

Object = dict[str, Any]

#: Nodes of a cluster for gateways: these run on the last one, so that the others may be lost. On a
#: newer cluster the operator has each pod wait for as long before SIGTERM.
NODES = (NodePlan(linger=2.0),) * 4
GATEWAYS_NODE = "node-4"

PORT = 8090
GATEWAYS = 3
REPLICAS = 3

SERVICE = "gateways"
SLICES = "/apis/discovery.k8s.io/v1beta1/namespaces/{}/endpointslices"
MODELS = "/apis/prediction.aiplatform.gdc.goog/v1/namespaces/{}/deployedmodels"
ENDPOINTS = "/apis/aiplatform.gdc.goog/v1/namespaces/{}/endpoints"
REPORTS = "/apis/partway.dev/v1/namespaces/{}/unreachablepods"

#: The key of the only principal.
CREDENTIALS = Credentials("AKIDOFTHECHECKS", "the secret of the checks on Kubernetes")

PRINCIPALS = f"""
[[principals]]
name = "checks"

[[principals.keys]]
access_key_id = "{CREDENTIALS.access_key_id}"
secret_access_key = "{CREDENTIALS.secret_access_key}"
"""

SETTINGS = f"""
[cluster]
endpoints = true
gateways = "{SERVICE}"
"""

#: All that a gateway may do.
ROLE = [
    {"apiGroups": [group], "resources": [resource], "verbs": verbs}
    for group, resource, verbs in (
        ("", "services", ["list", "watch"]),
        ("discovery.k8s.io", "endpointslices", ["list", "watch"]),
        ("aiplatform.gdc.goog", "endpoints", ["list", "watch"]),
        ("partway.dev", "unreachablepods", ["create", "patch", "delete"]),
    )
]


@dataclass
class Gateway:
    """A gateway.

    Attributes:
        name: of its pod.
        log: what it has printed.
        network: the file of its pod's network namespace.
        is_killed: its pod may look ready for a moment more.
    """

    name: str
    log: Path
    url: str
    network: Path
    is_killed: bool = False

    def lines(self, pattern: str) -> Iterator[tuple[float, re.Match[str]]]:
        """The lines with a pattern: when they were logged, in epoch seconds."""
        for line in self.log.read_text("utf-8").splitlines():
            if found := re.search(pattern, line):
                yield datetime.fromisoformat(line.split()[0]).timestamp(), found

    def times(self, pattern: str, since: float = 0.0) -> list[float]:
        return [when for when, _ in self.lines(pattern) if when >= since]

    def in_rotation(self, endpoint: str = "chat") -> int:
        """How many instances take streams, by the last line of each."""
        last = dict[str, str]()
        for _, found in self.lines(rf" (instance [a-z ]+) endpoint={endpoint} .* instance=(\S+)"):
            last[found[2]] = found[1]
        return [*last.values()].count("instance in rotation")

    def live_gateways(self) -> int:
        """Among how many gateways it divides shares; 0 if it does not answer."""
        with suppress(OSError), urlopen(f"{self.url}/metrics", timeout=10) as answer:
            found = re.search(r"\npartway_live_gateways (\S+)", answer.read().decode())
            return int(float(found[1])) if found else 0
        return 0

    def processes(self) -> list[int]:
        return processes_in([self.network])

    def kill(self) -> None:
        self.is_killed = True
        for process in self.processes():
            os.kill(process, signal.SIGKILL)


@dataclass
class Scene:
    """A namespace with an operator, several gateways, and models.

    Attributes:
        workers: of each of the first gateways; those that replace them have one.
    """

    cluster: Cluster
    namespace: str
    settings: str
    workers: tuple[int, ...]
    gateways: list[Gateway] = field(default_factory=list)
    started: int = 0

    # --- Gateways --------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make what gateways need."""
        self.cluster.account(self.namespace, "gateway", ROLE)
        core = f"/api/v1/namespaces/{self.namespace}"
        files = {"partway.toml": self.settings, "principals.toml": PRINCIPALS}
        secret = {"metadata": {"name": "settings"}, "stringData": files}
        self.cluster.ask("POST", f"{core}/secrets", secret)
        spec = {"clusterIP": "None", "selector": {"app": SERVICE}, "ports": [{"port": PORT}]}
        self.cluster.ask("POST", f"{core}/services", {"metadata": {"name": SERVICE}, "spec": spec})

    def start(self, number: int) -> None:
        """Start so many more gateways at once."""
        names = [f"gateway-{self.started + each}" for each in range(number)]
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        for name in names:
            workers = self.workers[self.started] if self.started < GATEWAYS else 1
            self.cluster.ask("POST", path, gateway_pod(name, workers))
            self.started += 1
        until(lambda: names_of(self.ready_pods()) >= {*names}, f"{names} are not ready")
        for pod in self.ready_pods():
            if (name := pod["metadata"]["name"]) in names:
                address = pod["status"]["podIP"]
                node = self.cluster.nodes[pod["spec"]["nodeName"]]
                log = self.cluster.logs / f"{self.namespace}.{name}.gateway.log"
                network = NAMESPACES / f"{node.namespace}-{address.rpartition('.')[2]}"
                self.gateways.append(Gateway(name, log, f"http://{address}:{PORT}", network))

    def replace_lost_gateways(self) -> None:
        """Start one for each gateway that was killed, and wait until all count all."""
        self.gateways = [each for each in self.gateways if not each.is_killed]
        self.start(GATEWAYS - len(self.gateways))
        for each in self.gateways:
            until(
                lambda each=each: each.live_gateways() == GATEWAYS,
                f"{each.name} does not count {GATEWAYS} gateways; its log: {each.log}",
            )

    # --- Models ----------------------------------------------------------------------------------

    def serve(self, endpoint: str, image: str) -> None:
        """Apply an endpoint with a model of the same name, and wait until all gateways have it."""
        container = {"modelContainerSpec": {"imageURI": image}}
        self.cluster.ask(
            "POST",
            MODELS.format(self.namespace),
            {
                "apiVersion": "prediction.aiplatform.gdc.goog/v1",
                "kind": "DeployedModel",
                "metadata": {"name": endpoint},
                "spec": {"endpointPath": f"endpoints/{endpoint}", "modelSpec": container},
            },
        )
        service = {"kind": "DeployedModel", "name": endpoint}
        destination = {"serviceRef": service, "trafficPercentage": 100}
        self.cluster.ask(
            "POST",
            ENDPOINTS.format(self.namespace),
            {
                "apiVersion": "aiplatform.gdc.goog/v1",
                "kind": "Endpoint",
                "metadata": {"name": endpoint},
                "spec": {"destinations": [destination]},
            },
        )
        until(lambda: self.ready(endpoint), f"{endpoint} has no ready pod")
        self.scale(REPLICAS, endpoint)
        self.until_all_have(REPLICAS, endpoint)

    def scale(self, replicas: int, model: str = "chat") -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{model}"
        kind = "application/merge-patch+json"
        self.cluster.ask("PATCH", path, {"spec": {"replicas": replicas}}, kind=kind)

    def pods(self, model: str = "chat") -> list[Object]:
        path = f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=partway.dev/model={model}"
        return list(self.cluster.ask("GET", path)["items"])

    def reports(self) -> list[Object]:
        """Of unreachable pods."""
        return list(self.cluster.ask("GET", REPORTS.format(self.namespace))["items"])

    def ready_pods(self) -> list[Object]:
        """Pods of all kinds."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return [each for each in self.cluster.ask("GET", path)["items"] if is_ready(each)]

    def ready(self, service: str = "chat") -> set[str]:
        """The names of the pods that the Service's slices call ready."""
        path = f"{SLICES.format(self.namespace)}?labelSelector=kubernetes.io/service-name={service}"
        return {
            one["targetRef"]["name"]
            for each in self.cluster.ask("GET", path)["items"]
            for one in each["endpoints"] or ()
            if one["conditions"].get("ready")
        }

    def until_all_have(self, replicas: int, model: str = "chat") -> None:
        """Wait until the slices and all gateways have so many pods."""
        until(lambda: len(self.ready(model)) == replicas, f"{replicas} pods are not ready")
        for each in self.gateways:
            until(
                lambda each=each: each.in_rotation(model) == replicas,
                f"{each.name} has {each.in_rotation(model)} of {replicas} pods of {model}",
            )

    def settle(self) -> None:
        """Wait until all is as after :meth:`serve`."""
        until(self.answers, "the API server is not back")
        self.replace_lost_gateways()
        self.scale(REPLICAS)
        self.until_all_have(REPLICAS)
        until(lambda: len(self.pods()) == REPLICAS, "pods are left over")

    def has_heard_of_nodes(self, since: datetime) -> bool:
        """Whether each node has sent a heartbeat, and each pod is called ready again."""
        conditions = [
            condition
            for each in self.cluster.ask("GET", "/api/v1/nodes")["items"]
            for condition in each["status"]["conditions"]
            if condition["type"] == "Ready"
        ]
        are_alive = all(
            each["status"] == "True" and datetime.fromisoformat(each["lastHeartbeatTime"]) > since
            for each in conditions
        )
        return are_alive and len(self.ready()) == len(self.pods())

    def answers(self) -> bool:
        try:
            self.ready()
        except (Refused, OSError):
            return False
        return True


def names_of(pods: list[Object]) -> set[str]:
    return {each["metadata"]["name"] for each in pods}


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def gateway_pod(name: str, workers: int) -> Object:
    """A gateway that is not started again: a test decides when it is back."""
    probe = {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 1}
    container = {
        "name": "gateway",
        "image": "partway",
        "args": [
            *("serve", "--config", "/etc/partway/partway.toml", "--workers", str(workers)),
            *("--auth", "sigv4", "--principals", "/etc/partway/principals.toml"),
            *("--log-format", "text"),
        ],
        "readinessProbe": {**probe, "failureThreshold": 1},
        "volumeMounts": [{"name": "settings", "mountPath": "/etc/partway"}],
    }
    return {
        "metadata": {"name": name, "labels": {"app": SERVICE}},
        "spec": {
            "serviceAccountName": "gateway",
            "restartPolicy": "Never",
            "nodeSelector": {"kubernetes.io/hostname": GATEWAYS_NODE},
            "containers": [container],
            "volumes": [{"name": "settings", "secret": {"secretName": "settings"}}],
        },
    }


@contextmanager
def several_gateways(
    cluster: Cluster,
    namespace: str,
    folder: Path,
    settings: str = "",
    workers: tuple[int, ...] = (1,) * GATEWAYS,
) -> Iterator[Scene]:
    """Start an operator and gateways in a namespace of their own.

    Args:
        folder: for files; it exists.
        settings: lines of the gateways' ``partway.toml``, before its tables.
    """
    define_kinds(cluster, folder)
    with cluster.namespace(namespace):
        operators = Operators(cluster, namespace, folder)
        try:
            operators.start()
            scene = Scene(cluster, namespace, settings + SETTINGS, workers)
            scene.prepare()
            scene.replace_lost_gateways()
            yield scene
        finally:
            operators.end()
