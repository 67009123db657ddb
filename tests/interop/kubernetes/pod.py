"""A hollow pod: an address of its own, and its containers, until its object is deleted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from tests.interop.kubernetes.api import AWAY, STRATEGIC, Api, ApiError, Object
from tests.interop.kubernetes.container import Container, Image, ended, now, untagged
from tests.interop.kubernetes.hosts import NAMESPACES, ip, plug
from tests.interop.kubernetes.pod_spec import PodSpec, SpecError
from tests.interop.kubernetes.teardown import processes_in

#: Seconds between two tries: to reach the API server, and to find what a spec refers to.
RETRY = 0.5
#: Seconds until a status that another has changed is written again, as by a real kubelet.
SYNC = 10.0
#: Seconds before a container that ends is started for the second time, and the most there are.
FIRST_BACKOFF, MOST_BACKOFF = 10.0, 300.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Node:
    """The node of a pod.

    Attributes:
        namespace: the node's network namespace, which has a switch for pods.
        pods: the beginning of its pods' addresses, as in ``10.96.1``.
        server: variables of each container: where the API server is.
        linger: seconds from a pod's deletion until its containers are told.
    """

    name: str
    address: str
    namespace: str
    pods: str
    folder: Path
    logs: Path
    images: Mapping[str, Image]
    server: dict[str, str]
    linger: float


class Pod:
    """A pod's life. ``live`` returns when the pod's object is deleted.

    Attributes:
        number: the last one of its address.
    """

    def __init__(self, node: Node, api: Api, seen: Object, number: int) -> None:
        metadata = seen["metadata"]
        self.number = number
        self.uid: str = metadata["uid"]
        self._node, self._api, self._spec = node, api, seen["spec"]
        self._path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        self._address = f"{node.pods}.{number}"
        self._namespace = f"{node.namespace}-{number}"
        self._folder = node.folder / self.uid
        self._pod_spec = PodSpec(seen, api, server=node.server, folder=self._folder)
        self._restart: str = self._spec.get("restartPolicy", "Always")
        self._grace = float(self._spec.get("terminationGracePeriodSeconds", 30))
        self._started = now()
        self._phase = "Pending"
        self._conditions: dict[str, tuple[bool, str]] = {}
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._gone = asyncio.Event()
        label = f"{metadata['namespace']}.{metadata['name']}"
        self._first, self._containers = (
            [
                Container(
                    spec,
                    node.images.get(untagged(spec["image"])),
                    hostname=metadata["name"][:63],
                    namespace=self._namespace,
                    address=self._address,
                    folder=self._folder,
                    log=node.logs / f"{label}.{spec['name']}.log",
                    changed=self._changed.set,
                )
                for spec in self._spec.get(kind, ())
            ]
            for kind in ("initContainers", "containers")
        )
        self._note("Initialized", value=not self._first)

    def see(self, seen: Object) -> None:
        """Look at its object: a node's loss has others call it unready."""
        conditions = seen["status"].get("conditions", ())
        told = {each["type"]: each["status"] == "True" for each in conditions}
        if told.get("Ready") is not None and told["Ready"] is not self._is_ready:
            asyncio.get_running_loop().call_later(SYNC, self._changed.set)

    def stop(self, grace: float) -> None:
        """Its object is to be deleted."""
        self._grace = grace
        self._stopping.set()

    def gone(self) -> None:
        """Its object is deleted: nobody waits for it."""
        self._gone.set()
        self._stopping.set()

    async def live(self) -> None:
        plug(
            self._namespace,
            f"{self._address}/16",
            switch=self._node.namespace,
            port=f"p{self.number}",
        )
        reporting = asyncio.create_task(self._report())
        try:
            await self._run()
            self._remove()
            await self._stopping.wait()
            await self._delete()
        finally:
            await ended(reporting)
            self._remove()
            shutil.rmtree(self._folder, ignore_errors=True)

    # --- Containers ------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Run its containers until they end, or it is stopped and they have."""
        running = asyncio.create_task(self._run_containers())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({running, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                await self._end(running)
            self._phase = "Succeeded" if await running else "Failed"
        finally:
            stopping.cancel()
            running.cancel()
        self._changed.set()

    async def _end(self, running: asyncio.Task[bool]) -> None:
        """Ask its containers to end; kill them when the grace period or the object is over."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._gone.wait(), min(self._node.linger, self._grace))
        asking = [asyncio.create_task(each.stop()) for each in (*self._first, *self._containers)]
        gone = asyncio.create_task(self._gone.wait())
        await asyncio.wait(
            {running, gone}, timeout=self._grace, return_when=asyncio.FIRST_COMPLETED
        )
        gone.cancel()
        for each in asking:
            each.cancel()
        self._kill()
        for container in (*self._first, *self._containers):
            container.kill()
        await running

    async def _run_containers(self) -> bool:
        """Whether all of them succeeded."""
        if await self._looked_up(self._pod_spec.make_volumes, self._containers) is None:
            return False
        for each in self._containers:
            each.waiting = "PodInitializing" if self._first else "ContainerCreating"
        for each in self._first:
            policy = "Never" if self._restart == "Never" else "OnFailure"
            if not await self._keep_running(each, policy):
                return False
        self._note("Initialized", value=True)
        async with asyncio.TaskGroup() as group:
            kept = [
                group.create_task(self._keep_running(each, self._restart))
                for each in self._containers
            ]
        return all(each.result() for each in kept)

    async def _keep_running(self, container: Container, policy: str) -> bool:
        """Whether its last run succeeded."""
        if container.image is None:
            container.waiting = "ErrImagePull"
            self._changed.set()
            await self._stopping.wait()
            return False
        look_up = partial(
            self._pod_spec.environment, container.spec, self._address, self._node.address
        )
        backoff = 0.0
        while (environment := await self._looked_up(look_up, [container])) is not None:
            container.waiting = ""
            mounts = self._pod_spec.mounts(container.spec)
            status = await container.run(environment, mounts, grace=self._grace)
            last = policy == "Never" or (policy == "OnFailure" and not status)
            if last or self._stopping.is_set():
                return not status
            container.waiting = "CrashLoopBackOff" if backoff else "ContainerCreating"
            self._changed.set()
            await self._stopped_within(backoff)
            backoff = min(2 * backoff or FIRST_BACKOFF, MOST_BACKOFF)
            container.restarts += 1
        return False

    async def _looked_up(
        self, look_up: Callable[[], Awaitable[Found]], waiting: list[Container]
    ) -> Found | None:
        """Its value, when all that the spec refers to is there; None where the pod is stopped."""
        while not self._stopping.is_set():
            try:
                return await look_up()
            except (SpecError, *AWAY) as error:
                print(f"{self._path}: {error}", flush=True)
                for each in waiting:
                    each.waiting = "CreateContainerConfigError"
                self._changed.set()
            await self._stopped_within(RETRY)
        return None

    async def _stopped_within(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    def _kill(self) -> None:
        for process in processes_in([NAMESPACES / self._namespace]):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _remove(self) -> None:
        if (NAMESPACES / self._namespace).exists():
            self._kill()
            ip("netns", "delete", self._namespace)

    # --- Its object ------------------------------------------------------------------------------

    def _note(self, condition: str, *, value: bool) -> None:
        if condition not in self._conditions or self._conditions[condition][0] is not value:
            self._conditions[condition] = (value, now())
            self._changed.set()

    @property
    def _is_ready(self) -> bool:
        return all(each.ready for each in self._containers)

    def _status(self) -> Object:
        if self._phase == "Pending" and any(each.running for each in self._containers):
            self._phase = "Running"
        for condition in ("ContainersReady", "Ready"):
            self._note(condition, value=self._is_ready)
        return {
            "phase": self._phase,
            "hostIP": self._node.address,
            "podIP": self._address,
            "podIPs": [{"ip": self._address}],
            "startTime": self._started,
            "conditions": [
                {"type": name, "status": str(value), "lastTransitionTime": since}
                for name, (value, since) in self._conditions.items()
            ],
            "initContainerStatuses": [each.status for each in self._first],
            "containerStatuses": [each.status for each in self._containers],
        }

    async def _report(self) -> None:
        """Write each change of its status, or the last one of several."""
        while True:
            status = {"metadata": {"uid": self.uid}, "status": self._status()}
            self._changed.clear()
            with contextlib.suppress(ApiError):  # it is deleted, or another has its name
                await self._until_heard("PATCH", f"{self._path}/status", status, STRATEGIC)
            await self._changed.wait()

    async def _delete(self) -> None:
        if self._gone.is_set():
            return
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self.uid}}
        with contextlib.suppress(ApiError):
            await self._until_heard("DELETE", self._path, options)
        await self._gone.wait()

    async def _until_heard(
        self, method: str, path: str, body: Object, kind: str = "application/json"
    ) -> None:
        while True:
            try:
                await self._api.ask(method, path, body, kind)
            except ApiError as error:
                if error.status not in {429, 500, 503, 504}:
                    raise
            except AWAY:
                pass
            else:
                return
            await asyncio.sleep(RETRY)
