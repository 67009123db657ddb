"""A hollow kubelet: its node is a network namespace, and a pod is real processes in one of its own.

It registers its node, renews its lease, runs the pods that the scheduler gives it, and writes their
status. It pulls no image: a name of one stands for a command of this machine. Run inside the node's
namespace, with its settings as JSON in a file::

    python -m tests.interop.kubernetes.kubelet SETTINGS
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from tests.interop.kubernetes.api import AWAY, MERGE, STRATEGIC, Api, ApiError, Object
from tests.interop.kubernetes.container import Image, now
from tests.interop.kubernetes.pod import RETRY, Node, Pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Kubelet:
    """A node's agent.

    Args:
        labels: of the node.
        capacity: how much of each resource the node has.
        heartbeat: seconds between two renewals of the node's lease.
    """

    def __init__(
        self,
        node: Node,
        api: Api,
        *,
        labels: dict[str, str],
        capacity: dict[str, str],
        heartbeat: float,
    ) -> None:
        self._node, self._api = node, api
        self._labels, self._capacity = labels, capacity
        self._heartbeat = heartbeat
        self._ready_since = now()
        self._pods: dict[str, Pod] = {}
        # The one that was free for longest is next.
        self._numbers = deque(range(1, 255))

    async def run(self) -> NoReturn:
        async with asyncio.TaskGroup() as self._group:
            self._group.create_task(self._keep_alive())
            self._group.create_task(self._follow())
        raise AssertionError("both go on for ever")

    # --- The node --------------------------------------------------------------------------------

    async def _keep_alive(self) -> NoReturn:
        registered = False
        while True:
            try:
                if not registered:
                    await self._register()
                    registered = True
                await self._beat()
            except (ApiError, *AWAY) as error:
                print(f"heartbeat: {error!r}", flush=True)
            await asyncio.sleep(self._heartbeat)

    async def _register(self) -> None:
        name = self._node.name
        labels = {"kubernetes.io/hostname": name, **self._labels}
        lease = {"holderIdentity": name, "leaseDurationSeconds": 40}
        for path, made in (
            ("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}}),
            (LEASES, {"metadata": {"name": name}, "spec": lease}),
        ):
            try:
                await self._api.ask("POST", path, made)
            except ApiError as error:
                if error.status != 409:
                    raise

    async def _beat(self) -> None:
        renewed = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"spec": {"renewTime": renewed}}
        await self._api.ask("PATCH", f"{LEASES}/{self._node.name}", lease, MERGE)
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "lastHeartbeatTime": now(),
            "lastTransitionTime": self._ready_since,
        }
        status = {
            "capacity": self._capacity,
            "allocatable": self._capacity,
            "addresses": [{"type": "InternalIP", "address": self._node.address}],
            "conditions": [ready],
        }
        path = f"/api/v1/nodes/{self._node.name}/status"
        await self._api.ask("PATCH", path, {"status": status}, STRATEGIC)

    # --- Pods ------------------------------------------------------------------------------------

    async def _follow(self) -> NoReturn:
        """List the node's pods, watch them, and do so again whenever the watch ends."""
        selector = f"spec.nodeName={self._node.name}"
        while True:
            try:
                listed = await self._api.ask("GET", f"/api/v1/pods?fieldSelector={selector}")
                for pod in listed["items"]:
                    self._see(pod)
                here = {pod["metadata"]["uid"] for pod in listed["items"]}
                for uid in self._pods.keys() - here:
                    self._pods[uid].gone()
                version = listed["metadata"]["resourceVersion"]
                async for event in self._api.watch("/api/v1/pods", version, fieldSelector=selector):
                    if event["type"] == "DELETED":
                        if (pod := self._pods.get(event["object"]["metadata"]["uid"])) is not None:
                            pod.gone()
                    else:
                        self._see(event["object"])
            except (ApiError, *AWAY) as error:
                print(f"pods: {error!r}", flush=True)
                await asyncio.sleep(RETRY)

    def _see(self, seen: Object) -> None:
        metadata = seen["metadata"]
        pod = self._pods.get(metadata["uid"])
        if pod is None:
            pod = self._pods[metadata["uid"]] = Pod(
                self._node, self._api, seen, self._numbers.popleft()
            )
            self._group.create_task(self._live(pod))
        pod.see(seen)
        if "deletionTimestamp" in metadata:
            pod.stop(metadata.get("deletionGracePeriodSeconds", 0))

    async def _live(self, pod: Pod) -> None:
        try:
            await pod.live()
        finally:
            del self._pods[pod.uid]
            self._numbers.append(pod.number)


async def main(settings: dict[str, Any]) -> None:
    images = {name: Image.of(each) for name, each in settings["images"].items()}
    names = ("name", "address", "namespace", "pods", "server", "linger")
    node = {name: settings[name] for name in names}
    folders = {name: Path(settings[name]) for name in ("folder", "logs")}
    async with Api.at(settings["url"], settings["token"], Path(settings["ca"])) as api:
        await Kubelet(
            Node(**node, **folders, images=images),
            api,
            labels=settings["labels"],
            capacity=settings["capacity"],
            heartbeat=settings["heartbeat"],
        ).run()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main(json.loads(Path(sys.argv[1]).read_text("utf-8"))))
