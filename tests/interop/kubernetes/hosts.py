"""Hosts of a cluster: network namespaces on a switch, which is one, too.

The switch is none of the machine's own bridges, so the machine's packet filters have no say. The
machine has a leg on it, and reaches every host and every pod.

    10.X.0.1      the machine; X is one for each network
    10.X.0.2 …    hosts, in the order in which they were made
    10.X.N.1 …    pods of node N
"""

from __future__ import annotations

import ipaddress
import subprocess
from dataclasses import dataclass
from pathlib import Path

NAMESPACES = Path("/run/netns")
#: Networks side by side on one machine.
MOST_NETWORKS = 32
FIRST_NETWORK = 96
#: Of every host towards the switch, and of every pod towards its node.
DEVICE = "eth0"
BRIDGE = "switch"


class NetworkError(Exception):
    """A command about networks failed."""


def ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise NetworkError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def batch(namespace: str, commands: str) -> None:
    """Several commands of ``ip``, one on a line, in a namespace."""
    done = subprocess.run(
        ["ip", "-netns", namespace, "-batch", "-"],
        input=commands,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise NetworkError(f"ip -netns {namespace}, {commands.strip()}: {done.stderr.strip()}")


def inside(namespace: str, *words: str) -> list[str]:
    """A command that runs on a host; its files are the machine's."""
    return ["nsenter", f"--net={NAMESPACES / namespace}", "--", *words]


def plug(namespace: str, address: str, *, switch: str, port: str) -> None:
    """Make a namespace with an address, and plug it into a bridge of another one."""
    ip("netns", "add", namespace)
    batch(
        switch,
        f"link add {port} type veth peer name {DEVICE} netns {namespace}\n"
        f"link set {port} master {BRIDGE} up\n",
    )
    batch(
        namespace,
        f"address add {address} dev {DEVICE}\nlink set {DEVICE} up\nlink set lo up\n",
    )


@dataclass(frozen=True)
class Host:
    """A host.

    Attributes:
        port: the switch's device that leads to the host.
    """

    namespace: str
    address: str
    switch: str
    port: str

    def command(self, *words: str) -> list[str]:
        return inside(self.namespace, *words)

    def cut(self) -> None:
        """Lose every packet from and to the host. Its own link stays up: it falls silent."""
        ip("-netns", self.switch, "link", "set", self.port, "nomaster")

    def mend(self) -> None:
        ip("-netns", self.switch, "link", "set", self.port, "master", BRIDGE)


class Network:
    """A switch, and the hosts on it. ``teardown`` removes all that has its name."""

    def __init__(self) -> None:
        self.name, number = self._claim()
        self.prefix = f"10.{FIRST_NETWORK + number}"
        self._hosts = 1
        try:
            self._make_switch()
        except NetworkError:
            ip("netns", "delete", self.name)
            raise

    def _make_switch(self) -> None:
        batch(self.name, f"link add {BRIDGE} type bridge\nlink set {BRIDGE} up\nlink set lo up\n")
        ip("link", "add", self.name, "type", "veth", "peer", "name", "machine", "netns", self.name)
        ip("-netns", self.name, "link", "set", "machine", "master", BRIDGE, "up")
        ip("address", "add", f"{self.prefix}.0.1/16", "dev", self.name)
        ip("link", "set", self.name, "up")

    @staticmethod
    def _claim() -> tuple[str, int]:
        for number in range(MOST_NETWORKS):
            name = f"pwkube{number}"
            if not (NAMESPACES / name).exists():
                try:
                    ip("netns", "add", name)
                except NetworkError:
                    if not (NAMESPACES / name).exists():
                        raise
                    continue  # another run was faster
                return name, number
        raise NetworkError(
            f"{MOST_NETWORKS} networks exist; end other runs, or remove what they left: "
            f"python -m tests.interop.kubernetes.teardown pwkube0"
        )

    @property
    def addresses(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"{self.prefix}.0.0/16")

    def host(self, name: str) -> Host:
        self._hosts += 1
        made = Host(
            f"{self.name}-{name}", f"{self.prefix}.0.{self._hosts}", self.name, f"h{self._hosts}"
        )
        plug(made.namespace, f"{made.address}/16", switch=self.name, port=made.port)
        return made

    def node(self, name: str) -> Host:
        """A host that has a switch of its own, which pods are plugged into."""
        made = self.host(name)
        batch(
            made.namespace,
            f"address flush dev {DEVICE}\n"
            f"link add {BRIDGE} type bridge\n"
            f"link set {DEVICE} master {BRIDGE}\n"
            f"address add {made.address}/16 dev {BRIDGE}\n"
            f"link set {BRIDGE} up\n",
        )
        return made
