"""Remove a network with everything that runs in it, and a folder: ``teardown NETWORK [FOLDER]``.

Started beside a cluster it waits for the end of its standard input. A harness that is killed
closes it, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.interop.kubernetes.hosts import NAMESPACES

#: Seconds for processes to be gone after SIGKILL.
PATIENCE = 30.0


def namespaces_of(network: str) -> list[Path]:
    """Those of the network's nodes and pods, then the hosts', then the switch."""
    named = [each for each in NAMESPACES.glob(f"{network}*") if each.name.split("-")[0] == network]
    return sorted(named, key=lambda each: (-each.name.count("-"), each.name))


def identity(namespace: Path) -> tuple[int, int]:
    found = namespace.stat()
    return found.st_dev, found.st_ino


def processes_in(namespaces: list[Path]) -> list[int]:
    wanted = {identity(each) for each in namespaces if each.exists()}
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if identity(entry / "ns/net") in wanted:
                found.append(int(entry.name))
        except OSError:  # it has ended
            continue
    return found


def remove_network(network: str) -> None:
    deadline = time.monotonic() + PATIENCE
    # A kubelet that is alive may make a pod meanwhile.
    while namespaces := namespaces_of(network):
        while processes := processes_in(namespaces):
            for process in processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            if time.monotonic() > deadline:
                raise TimeoutError(f"{network}: processes {processes} outlive SIGKILL")
            time.sleep(0.01)
        for namespace in namespaces:
            subprocess.run(["ip", "netns", "delete", namespace.name], check=True)
    # It goes with the switch, but a moment later: the next network may have its name.
    while (Path("/sys/class/net") / network).exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{network}: the machine's leg is still there")
        time.sleep(0.01)


def main() -> None:
    network, *folders = sys.argv[1:]
    if folders:
        sys.stdin.read()
    remove_network(network)
    for folder in folders:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
