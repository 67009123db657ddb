"""``partway operator``: the kinds that it needs, and processes that have the rights of its role."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from partway.gateway.operator.cluster_check import NEEDED
from tests.conftest import ROOT
from tests.interop.kubernetes.cluster import Cluster
from tests.processes import ready_url

NAME = "operator"

#: The Service of all gateways.
GATEWAYS = "gateways"


def define_kinds(cluster: Cluster, folder: Path) -> None:
    """Apply the definitions that the command prints, and wait until they are in force."""
    words = [sys.executable, "-m", "partway", "operator", "--print-crds"]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    file = folder / "definitions.json"
    file.write_text(printed, "utf-8")
    # This server is older than the rules in CEL, and leaves them out; kubectl would refuse them.
    cluster.kubectl("apply", "--validate=false", "-f", str(file))
    names = [f"crd/{each['metadata']['name']}" for each in json.loads(printed)["items"]]
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


class Operators:
    """Operators of a namespace, one beside another.

    Attributes:
        url: of the last one's ``/healthz`` and ``/metrics``.
    """

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self.url = ""
        self._folder = folder
        token = folder / "operator.token"
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
            for (group, resource), verbs in NEEDED.items()
        ]
        token.write_text(cluster.account(namespace, NAME, rules), "utf-8")
        self._words = [
            *(sys.executable, "-m", "partway", "operator", "--port", "0"),
            *("--server", cluster.url, "--ca-file", str(cluster.ca)),
            *("--token-file", str(token), "--namespace", namespace),
            *("--gateways", GATEWAYS),
        ]
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *flags: str) -> subprocess.Popen[bytes]:
        """One more, which listens."""
        number = len(self._started)
        with (self._folder / f"operator-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [*self._words, *flags], stdout=subprocess.PIPE, stderr=log, cwd=ROOT
            )
        self._started.append(process)
        self.url = ready_url(process)
        return process

    def log(self, number: int = 0) -> str:
        return (self._folder / f"operator-{number}.log").read_text("utf-8")

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()
