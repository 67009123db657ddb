"""A cluster to try by hand, until Ctrl-C: ``python -m tests.interop.kubernetes``."""

from __future__ import annotations

import argparse
import signal
import tempfile
from pathlib import Path

from tests.interop.kubernetes.cluster import Cluster, NodePlan, programs
from tests.interop.kubernetes.control_plane import DEFAULT_TIMES, SHORT_TIMES


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--default-times", action="store_true", help="a cluster's own node times")
    parser.add_argument("--logs", type=Path, help="a folder (a new one)")
    arguments = parser.parse_args()
    logs = arguments.logs or Path(tempfile.mkdtemp(prefix="partway-kubernetes-logs-"))
    times = DEFAULT_TIMES if arguments.default_times else SHORT_TIMES
    nodes = [NodePlan()] * arguments.nodes
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    with Cluster.start(programs(), logs, nodes=nodes, times=times) as cluster:
        print(f"logs  {logs}\nexport KUBECONFIG={cluster.kubeconfig}", flush=True)
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    main()
