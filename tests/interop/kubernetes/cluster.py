"""A cluster for tests: a real control plane, and hollow nodes on which pods are real processes.

::

    with Cluster.start(programs(), logs, users=["partway-operator"]) as cluster:
        cluster.kubectl("apply", "-f", "deployment.yaml")
        cluster.nodes["node-1"].cut()
        gateway = cluster.host("gateway-1")
        subprocess.Popen(gateway.command("partway", "serve"))

Everything is in network namespaces, and ends with this process, however that ends. There is no
cluster DNS and no kube-proxy: only headless Services and the pods' own addresses lead to pods.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.conftest import ROOT
from tests.interop.kubernetes.control_plane import (
    ADMIN,
    PORT,
    SHORT_TIMES,
    ControlPlane,
    NodeTimes,
    Program,
    Refused,
    until,
)
from tests.interop.kubernetes.hosts import Host, Network

BUILD = Path(__file__).with_name("build")

#: Seconds for a command of kubectl's.
PATIENCE = 120.0

#: The images that every node has, as the Dockerfile makes them: Partway, and the models that ship.
#: One more always fails.
IMAGES: dict[str, dict[str, Any]] = {
    "partway": {
        "entrypoint": [sys.executable, "-m", "partway"],
        "command": ["serve"],
        "environment": {"PARTWAY_HOST": "0.0.0.0", "XDG_DATA_HOME": "/var/lib"},
    },
    **{
        model: {
            "entrypoint": [sys.executable, "-m", "partway.container"],
            "command": ["serve"],
            "environment": {"PARTWAY_MODEL": model},
        }
        for model in ("echo", "chat", "kmeans", "linear", "pca", "speech", "voice")
    },
    "broken": {"entrypoint": ["sh", "-c", "echo the model has no GPU >&2; exit 3"]},
}


@dataclass(frozen=True)
class NodePlan:
    """A node to be made.

    Attributes:
        capacity: of resources beside CPU, memory and pods, such as ``nvidia.com/gpu``.
        linger: seconds from a pod's deletion until its containers are told; it stands for the hook
            ``preStop: {sleep: …}``, which this API server does not know.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    linger: float = 0.0


def programs() -> Path:
    """The folder of the built programs.

    Raises:
        RuntimeError: They are not built.
    """
    found = subprocess.run([BUILD, "--where"], capture_output=True, text=True, check=False)
    if found.returncode:
        raise RuntimeError(f"{found.stderr.strip()}; run make kubernetes, a quarter of an hour")
    return Path(found.stdout.strip())


class Cluster(ControlPlane):
    """The cluster.

    Attributes:
        nodes: the hosts that run pods, by their names: ``node-1`` …
        kubelets: their programs, by the same names.
        logs: the folder of the programs' logs, and of each container's.
    """

    def __init__(
        self,
        programs: Path,
        network: Network,
        folder: Path,
        logs: Path,
        *,
        users: Sequence[str],
        times: NodeTimes,
    ) -> None:
        super().__init__(
            programs,
            network.host("control"),
            folder,
            logs,
            services=f"{network.prefix}.255.0/24",
            users=users,
            times=times,
        )
        self.nodes: dict[str, Host] = {}
        self.logs = logs
        self._network, self._folder, self._heartbeat = network, folder, times.heartbeat
        self.kubelets: dict[str, Program] = {}

    @classmethod
    @contextmanager
    def start(
        cls,
        programs: Path,
        logs: Path,
        *,
        nodes: Sequence[NodePlan] = (NodePlan(), NodePlan(), NodePlan()),
        users: Sequence[str] = (),
        times: NodeTimes = SHORT_TIMES,
        images: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> Iterator[Self]:
        """Start a cluster, whose nodes are ready.

        Args:
            programs: the folder of the built programs.
            logs: a folder for logs, which stays.
            users: names of users without rights, each with a token.
            images: commands by further names of images: ``entrypoint``, ``command``,
                ``environment``.
        """
        logs.mkdir(parents=True, exist_ok=True)
        network = Network()
        folder = Path(tempfile.mkdtemp(prefix=f"{network.name}-"))
        guard = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.kubernetes.teardown", network.name, str(folder)],
            stdin=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )
        cluster = None
        try:
            cluster = cls(programs, network, folder, logs, users=users, times=times)
            ControlPlane.start(cluster)
            for number, plan in enumerate(nodes, 1):
                cluster._add_node(number, plan, {**IMAGES, **(images or {})})
            until(cluster.is_settled, "the nodes are not ready")
            yield cluster
            for program in (*cluster.programs, *cluster.kubelets.values()):
                program.check()
        finally:
            assert guard.stdin is not None
            guard.stdin.close()
            assert guard.wait() == 0, f"{network.name} is not removed"
            if cluster is not None:
                for program in (*cluster.programs, *cluster.kubelets.values()):
                    program.forget()

    def host(self, name: str) -> Host:
        """A host of another kind, such as a gateway's, on the nodes' network."""
        return self._network.host(name)

    def _add_node(self, number: int, plan: NodePlan, images: Mapping[str, Any]) -> None:
        name = f"node-{number}"
        host = self.nodes[name] = self._network.node(name)
        folder = self._folder / name
        folder.mkdir()
        settings = {
            "name": name,
            "address": host.address,
            "namespace": host.namespace,
            "pods": f"{self._network.prefix}.{number}",
            "folder": str(folder),
            "logs": str(self.logs),
            "url": self.url,
            "token": self.tokens[ADMIN],
            "ca": str(self.ca),
            "server": {
                "KUBERNETES_SERVICE_HOST": self.url.rpartition(":")[0].rpartition("/")[2],
                "KUBERNETES_SERVICE_PORT": str(PORT),
            },
            "images": images,
            "labels": dict(plan.labels),
            "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110", **plan.capacity},
            "heartbeat": self._heartbeat,
            "linger": plan.linger,
        }
        file = folder / "settings.json"
        file.write_text(json.dumps(settings), "utf-8")
        words = [sys.executable, "-m", "tests.interop.kubernetes.kubelet", str(file)]
        self.kubelets[name] = Program(host.command(*words), self.logs / f"kubelet-{name}.log")
        self.kubelets[name].start()

    def is_settled(self) -> bool:
        """Whether every node is ready, and pods can be made."""
        for program in (*self.programs, *self.kubelets.values()):
            program.check()
        nodes = self.ask("GET", "/api/v1/nodes")["items"]
        ready = [
            condition["status"] == "True"
            for node in nodes
            if "taints" not in node["spec"]
            for condition in node["status"]["conditions"]
            if condition["type"] == "Ready"
        ]
        return ready.count(True) == len(self.nodes) and self._has_account("default")

    @contextmanager
    def namespace(self, name: str) -> Iterator[str]:
        """A namespace in which pods can be made. It goes with all that is in it, after 5 s."""
        self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        until(lambda: self._has_account(name), f"namespace {name} has no service account")
        try:
            yield name
        finally:
            self.ask("DELETE", f"/api/v1/namespaces/{name}")

    def _has_account(self, namespace: str) -> bool:
        """Whether it has the service account that pods need."""
        try:
            path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            return "secrets" in self.ask("GET", path)
        except Refused as refusal:
            if refusal.status != 404:
                raise
            return False

    def kubectl(self, *words: str, user: str = ADMIN) -> str:
        """What a command of kubectl's that works prints.

        Raises:
            AssertionError: It failed; with its errors.
        """
        program = os.environ.get("KUBECTL") or shutil.which("kubectl")
        assert program, "there is no kubectl: apt-get install kubernetes-client"
        done = subprocess.run(
            [program, *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "KUBECONFIG": str(self.kubeconfig_of(user)),
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout
