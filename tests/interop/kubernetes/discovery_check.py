"""Three gateways, each on a host of its own, that discover the pods of a real Kubernetes.

The clocks are the gateways' own logs, and a watch of the slices beside them.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from partway.gateway.client import PartwayError, connect
from tests.interop.kubernetes.cluster import Cluster
from tests.interop.kubernetes.control_plane import Refused
from tests.interop.kubernetes.hosts import Host

pytestmark = pytest.mark.timeout(400)

GATEWAYS = 3
#: Open streams of each gateway while something happens.
STREAMS = 12
#: Seconds: from a change of a slice to its effect at a gateway.
READINESS = 1.0
#: Seconds from a host's silence: to its pods' leave of the rotation, and to its streams' ends.
OUT_OF_ROTATION, ENDS = 5.0, 6.0
#: Seconds for which the API server is away.
AWAY = 60.0
#: Seconds for anything else.
PATIENCE = 60.0

SLICES = "/apis/discovery.k8s.io/v1beta1/namespaces/{}/endpointslices"

#: All that a gateway may do.
ROLE = [
    {"apiGroups": [""], "resources": ["services"], "verbs": ["list", "watch"]},
    {
        "apiGroups": ["discovery.k8s.io"],
        "resources": ["endpointslices"],
        "verbs": ["list", "watch"],
    },
    {
        "apiGroups": ["partway.dev"],
        "resources": ["unreachablepods"],
        "verbs": ["create", "patch", "delete"],
    },
]


async def eventually(met: Callable[[], Any], awaited: str, patience: float = PATIENCE) -> None:
    """Wait for a condition, which may ask the cluster: it is looked at in another thread."""
    deadline = time.monotonic() + patience
    while not await asyncio.to_thread(met):
        assert time.monotonic() < deadline, awaited
        await asyncio.sleep(0.05)


@dataclass
class Gateway:
    host: Host
    log: Path
    url: str = ""

    def times(self, pattern: str) -> list[float]:
        """When the lines with a pattern were logged, in epoch seconds."""
        lines = self.log.read_text("utf-8").splitlines()
        found = [line for line in lines if re.search(pattern, line)]
        return [datetime.fromisoformat(line.split()[0]).timestamp() for line in found]

    def count(self, pattern: str) -> int:
        return len(self.times(pattern))

    def in_rotation(self) -> int:
        """How many instances take streams, by the last line of each."""
        last = dict[str, str]()
        for line in self.log.read_text("utf-8").splitlines():
            if found := re.search(r" (instance [a-z ]+) endpoint=.* instance=(\S+)", line):
                last[found[2]] = found[1]
        return [*last.values()].count("instance in rotation")

    async def until_in_rotation(self, number: int) -> None:
        await eventually(lambda: self.in_rotation() == number, f"{number} are in rotation")


@dataclass
class Load:
    """Short streams, one after the other, through one gateway."""

    gateway: Gateway
    is_over: bool = False
    opened: int = 0
    failures: list[str] = field(default_factory=list)

    async def run(self) -> None:
        while not self.is_over:
            try:
                async with connect(self.gateway.url, "chat") as stream:
                    await stream.send_bytes(b"hello")
                    assert (await asyncio.wait_for(anext(stream), 10)).payload == b"hello"
                self.opened += 1
            except (PartwayError, TimeoutError) as error:
                self.failures.append(f"{datetime.now(UTC)}: {error}")
            await asyncio.sleep(0.1)


@asynccontextmanager
async def load(gateways: list[Gateway]) -> AsyncIterator[list[Load]]:
    loads = [Load(each) for each in gateways]
    tasks = [asyncio.create_task(each.run()) for each in loads]
    try:
        yield loads
    finally:
        for each in loads:
            each.is_over = True
        await asyncio.gather(*tasks)


class Scene:
    """A namespace with the Service ``chat`` of echo pods, and three gateways."""

    def __init__(self, cluster: Cluster, namespace: str, gateways: list[Gateway]) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.gateways = gateways

    def pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return list(self.cluster.ask("GET", path)["items"])

    def scale(self, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/chat"
        self.cluster.ask("PATCH", path, {"spec": {"replicas": replicas}}, kind=MERGE)

    def ready(self) -> dict[str, str]:
        """The ready pods of the slices: their names, by address."""
        found = {}
        for each in self.cluster.ask("GET", SLICES.format(self.namespace))["items"]:
            for one in each["endpoints"] or ():
                if one["conditions"].get("ready"):
                    found[one["addresses"][0]] = one["targetRef"]["name"]
        return found

    async def until_ready(self, number: int) -> float:
        """Wait until the slices have so many ready pods; return when that was seen."""
        ready = dict[str, str]()

        def is_so() -> bool:
            nonlocal ready
            ready = self.ready()
            return len(ready) == number

        try:
            await eventually(is_so, f"{number} pods are ready")
        except AssertionError as error:
            raise AssertionError(f"{error}; ready are {ready}; {self.gateways[0].log}") from None
        return time.time()


#: The log's line of a stream whose container is lost.
LOST = "stream ended .*cause=container_lost"

MERGE = "application/merge-patch+json"


def definition() -> dict[str, Any]:
    """The kind of reports, with any members."""
    any_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "unreachablepods.partway.dev"},
        "spec": {
            "group": "partway.dev",
            "scope": "Namespaced",
            "names": {"kind": "UnreachablePod", "plural": "unreachablepods"},
            "versions": [{**version, "schema": {"openAPIV3Schema": any_object}}],
        },
    }


def deployment(replicas: int) -> dict[str, Any]:
    probe = {"httpGet": {"path": "/ping", "port": 8080}, "periodSeconds": 1, "failureThreshold": 1}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "chat"}},
    }
    # Its pod leaves the slices before its container ends.
    hook = {"preStop": {"exec": {"command": ["sleep", "2"]}}}
    container = {"name": "model", "image": "echo", "readinessProbe": probe, "lifecycle": hook}
    pod = {"containers": [container], "topologySpreadConstraints": [spread]}
    template = {"metadata": {"labels": {"app": "chat"}}, "spec": pod}
    selector = {"matchLabels": {"app": "chat"}}
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": "chat"}, "spec": spec}


@pytest.fixture(scope="module")
def kinds(cluster: Cluster) -> None:
    with suppress(Refused):  # it is there
        cluster.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())


@pytest.fixture
def hosts(cluster: Cluster, namespace: str) -> list[Host]:
    return [cluster.host(f"{namespace[-20:].strip('-')}-{each}") for each in range(GATEWAYS)]


def account(cluster: Cluster, namespace: str) -> str:
    """A token that may do what a gateway does, and no more."""
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    name = {"metadata": {"name": "gateway"}}
    cluster.ask("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", name)
    cluster.ask("POST", f"{rbac}/roles", {**name, "rules": ROLE})
    binding = {
        **name,
        "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": namespace}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "gateway"},
    }
    cluster.ask("POST", f"{rbac}/rolebindings", binding)
    return cluster.token_of_account(namespace, "gateway")


@asynccontextmanager
async def serving(
    gateway: Gateway, config: Path, folder: Path, workers: int
) -> AsyncIterator[None]:
    words = [sys.executable, "-m", "partway.gateway.cli.main", "serve", "--config", str(config)]
    words += ["--host", gateway.host.address, "--port", "8090", "--insecure"]
    words += ["--data-dir", str(folder), "--log-format", "text", "--workers", str(workers)]
    with gateway.log.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *gateway.host.command(*words), stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        assert line.startswith("listening on "), gateway.log.read_text("utf-8")
        gateway.url = line.split()[2]
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await asyncio.wait_for(process.wait(), PATIENCE)


@pytest.fixture
async def scene(
    cluster: Cluster, namespace: str, kinds: None, hosts: list[Host], tmp_path: Path,
    anyio_backend: object,
) -> AsyncIterator[Scene]:  # fmt: skip
    token = tmp_path / "token"
    token.write_text(await asyncio.to_thread(account, cluster, namespace), "utf-8")
    service = {"clusterIP": "None", "selector": {"app": "chat"}, "ports": [{"port": 8080}]}
    base = f"/api/v1/namespaces/{namespace}/services"
    cluster.ask("POST", base, {"metadata": {"name": "chat"}, "spec": service})
    cluster.ask("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment(3))
    config = tmp_path / "partway.toml"
    config.write_text(
        f'[cluster]\nserver = "{cluster.url}"\ntoken_file = "token"\nca_file = "{cluster.ca}"\n'
        f'namespace = "{namespace}"\n[endpoints.chat]\nservice = "chat"\n',
        "utf-8",
    )
    gateways = [Gateway(each, tmp_path / f"gateway-{n}.log") for n, each in enumerate(hosts)]
    scene = Scene(cluster, namespace, gateways)
    await scene.until_ready(3)
    async with AsyncExitStack() as up:
        for number, each in enumerate(gateways):
            workers = 2 if number == 0 else 1
            folder = tmp_path / f"data-{number}"
            await up.enter_async_context(serving(each, config, folder, workers))
        for each in gateways:
            await each.until_in_rotation(3)
        yield scene


async def open_streams(up: AsyncExitStack, gateway: Gateway) -> list[Any]:
    streams = [await up.enter_async_context(connect(gateway.url, "chat")) for _ in range(STREAMS)]
    for stream in streams:
        await stream.send_bytes(b"before")
        assert (await asyncio.wait_for(anext(stream), 10)).payload == b"before"
    return streams


async def still_talks(stream: Any) -> None:
    await stream.send_bytes(b"after")
    assert (await asyncio.wait_for(anext(stream), 10)).payload == b"after"


async def test_readiness_reaches_all_gateways(scene: Scene) -> None:
    """1 to 8 and back: no stream fails."""
    async with load(scene.gateways) as loads:
        for number in (1, 8, 1):
            await asyncio.to_thread(scene.scale, number)
            seen = await scene.until_ready(number)
            for each in scene.gateways:
                await each.until_in_rotation(number)
                last = max(each.times("instance (in rotation|draining|gone|out of)"))
                print(f"{number} pods: {each.host.namespace} followed {last - seen:+.3f} s")
                assert last - seen < READINESS
    print("opened meanwhile", [each.opened for each in loads])
    assert [each.failures for each in loads] == [[]] * GATEWAYS
    assert all(each.opened for each in loads)


async def test_a_host_that_is_cut_off(scene: Scene) -> None:
    pods = await asyncio.to_thread(scene.pods)
    (lost,) = [each for each in pods if each["spec"]["nodeName"] == "node-1"]
    address, name = lost["status"]["podIP"], lost["metadata"]["name"]
    async with AsyncExitStack() as up:
        for each in scene.gateways:
            await open_streams(up, each)
        async with load(scene.gateways) as loads:
            node = scene.cluster.nodes["node-1"]
            cut = time.time()
            node.cut()
            up.callback(node.mend)
            out = f"instance out of rotation .*container={re.escape(address)}:"
            for each in scene.gateways:
                await eventually(lambda each=each: each.times(out), "it is out of rotation")
                took = each.times(out)[0] - cut
                print(f"out of rotation after {took:.2f} s")
                assert took < OUT_OF_ROTATION
            for each in scene.gateways:
                await eventually(
                    lambda each=each: each.count(LOST) >= STREAMS // 3, "its streams have ended"
                )
                took = max(each.times(LOST)) - cut
                print(f"{each.count(LOST)} streams ended after {took:.2f} s")
                assert took < ENDS

            def reports() -> list[str]:
                path = f"/apis/partway.dev/v1/namespaces/{scene.namespace}/unreachablepods"
                return [each["spec"]["pod"] for each in scene.cluster.ask("GET", path)["items"]]

            await eventually(reports, "it is reported")
            assert set(reports()) == {name}
        print([each.opened for each in loads], [each.failures for each in loads])
        assert [each.failures for each in loads] == [[]] * GATEWAYS


async def test_the_api_server_is_away_for_a_minute(scene: Scene) -> None:
    async with AsyncExitStack() as up:
        streams = [stream for each in scene.gateways for stream in await open_streams(up, each)]
        async with load(scene.gateways) as loads:
            await asyncio.to_thread(scene.cluster.api_server.kill)
            await asyncio.sleep(AWAY)
            await asyncio.to_thread(scene.cluster.api_server.start)
            await eventually(lambda: _answers(scene), "the API server is back")
            await asyncio.to_thread(scene.scale, 5)
            for each in scene.gateways:
                await eventually(
                    lambda each=each: each.count("instance in rotation") >= 5, "new pods are found"
                )
        assert [each.failures for each in loads] == [[]] * GATEWAYS
        print("opened meanwhile", [each.opened for each in loads])
        for stream in streams:
            await still_talks(stream)
    for each in scene.gateways:
        assert each.count("a collection cannot be followed") <= 4  # two watches, and lists anew


def _answers(scene: Scene) -> bool:
    try:
        scene.ready()
    except (Refused, OSError):
        return False
    return True
