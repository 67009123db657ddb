"""Custom objects, and a cluster in memory whose controllers make what is wanted ready."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, CustomObject
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.cluster_settings import ClusterSettings
from partway.gateway.operator.kept_namespace import KeptNamespace, PodSettings
from partway.gateway.timing.clock import LoopClock
from tests.gateway.cluster.fake_api_server import FakeApiServer, JsonObject
from tests.gateway.fleet.waiting import eventually, soon

#: When all of it is.
NOW = 1_705_627_110.0
NOW_SAID = "2024-01-19T01:18:30Z"

MODELS = (DEPLOYED_MODEL.api_version, DEPLOYED_MODEL.plural)
ENDPOINTS = (ENDPOINT.api_version, ENDPOINT.plural)
DEPLOYMENTS = ("apps/v1", "deployments")
SERVICES = ("v1", "services")
BUDGETS = ("policy/v1", "poddisruptionbudgets")
SLICES = ("discovery.k8s.io/v1", "endpointslices")
PODS = ("v1", "pods")
REPORTS = ("partway.dev/v1", "unreachablepods")


def a_model(name: str = "one", endpoint: str = "chat", **container: Any) -> JsonObject:
    model = {"modelContainerSpec": {"imageURI": "registry.example/echo:1", **container}}
    return {
        "apiVersion": DEPLOYED_MODEL.api_version,
        "kind": DEPLOYED_MODEL.kind,
        "metadata": {"name": name, "uid": f"uid-of-{name}"},
        "spec": {"endpointPath": f"endpoints/{endpoint}", "modelSpec": model},
    }


def annotated(model: JsonObject, **annotations: str) -> JsonObject:
    said = {f"partway.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {**model, "metadata": {**model["metadata"], "annotations": said}}


def an_endpoint(name: str = "chat", /, **shares: int) -> JsonObject:
    return {
        "apiVersion": ENDPOINT.api_version,
        "kind": ENDPOINT.kind,
        "metadata": {"name": name},
        "spec": {
            "destinations": [
                {"serviceRef": {"kind": "DeployedModel", "name": each}, "trafficPercentage": share}
                for each, share in (shares or {"one": 100}).items()
            ]
        },
    }


def deployed_model(given: JsonObject) -> CustomObject:
    """The object as the controller has it."""
    metadata = given["metadata"]
    return CustomObject(
        DEPLOYED_MODEL, "default", metadata["name"], metadata["uid"], 7, 1, NOW_SAID,
        given["spec"], annotations=metadata.get("annotations", {}),
    )  # fmt: skip


_changes = itertools.count()


def a_report(pod: str, gateway: str, uid: str = "") -> JsonObject:
    """A gateway's report, which differs from each earlier one, as a renewal does."""
    spec = {"pod": pod, "podUID": uid or f"uid-of-{pod}", "gateway": gateway, "since": "then"}
    renewed = f"renewal {next(_changes)}"
    return {"metadata": {"name": f"{pod}.{gateway}"}, "spec": {**spec, "renewed": renewed}}


def a_running_pod(name: str) -> JsonObject:
    """One that a DeployedModel's Deployment has made."""
    owner = {"kind": "ReplicaSet", "name": "one-5d4f", "uid": "set", "controller": True}
    metadata = {"labels": {"partway.dev/model": "one"}, "ownerReferences": [owner]}
    return {
        "metadata": {**metadata, "name": name, "uid": f"uid-of-{name}"},
        "status": {"phase": "Running"},
    }


def labels_of_slice(service: str) -> dict[str, str]:
    """Those that Kubernetes' own controller gives."""
    return {
        "kubernetes.io/service-name": service,
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }


def gateways_slice(*gateways: str) -> JsonObject:
    """The slice of the Service ``gateways``, with ready pods."""
    targets = [{"kind": "Pod", "name": each, "uid": f"uid-of-{each}"} for each in gateways]
    return {
        "metadata": {"name": "gateways-1", "labels": labels_of_slice("gateways")},
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": [f"10.1.0.{number}"], "targetRef": target}
            for number, target in enumerate(targets, 1)
        ],
    }


class PlayedCluster(FakeApiServer):
    """An API server, and what other controllers do when a test says so."""

    def add(self, *objects: JsonObject) -> None:
        for each in objects:
            kind = MODELS if each["kind"] == DEPLOYED_MODEL.kind else ENDPOINTS
            self.put(*kind, each)

    def condition(self, name: str, kind: tuple[str, str] = MODELS) -> JsonObject:
        """An object's one condition; empty as long as it has none."""
        status = self.find(*kind, name).get("status", {})
        found: JsonObject = status.get("primaryCondition") or (status.get("conditions") or [{}])[0]
        return found

    def reasons(self) -> dict[str, str]:
        """The reasons of all objects, by name."""
        return {
            name: self.condition(name, kind).get("reason", "")
            for kind in (MODELS, ENDPOINTS)
            for _, name in self.all(*kind)
        }

    def make_ready(self, name: str = "one", **status: Any) -> None:
        """Have a Deployment's pods ready, as the cluster's controllers have them."""
        found = self.find(*DEPLOYMENTS, name)
        count = found["spec"].get("replicas", 1)
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), count)
        generation = {"observedGeneration": found["metadata"]["generation"]}
        self.put(*DEPLOYMENTS, {**found, "status": {**counts, **generation, **status}})
        self.put(*SLICES, self.slice_of(name))

    def slice_of(self, name: str, *ready: bool | None) -> JsonObject:
        """A slice of a Service, which belongs to it, and has its labels."""
        service, made = self.find(*SERVICES, name)["metadata"], a_slice(name, *ready)
        labels = {**service["labels"], **made["metadata"]["labels"]}
        owners = [{"uid": service["uid"]}]
        return {
            **made,
            "metadata": {**made["metadata"], "labels": labels, "ownerReferences": owners},
        }

    def writes(self) -> list[str]:
        return [str(each) for each in self.asked if each.method != "GET"]

    def made(self) -> dict[str, Any]:
        """Everything but versions and times: what is left in the end."""
        return {
            f"{plural}/{name}": {
                "labels": found["metadata"].get("labels"),
                "owners": found["metadata"].get("ownerReferences"),
                "spec": found["spec"],
                "status": found.get("status"),
            }
            for (_, plural), objects in self.objects.items()
            for (_, name), found in objects.items()
            if plural != SLICES[1]
        }


def a_slice(service: str, *ready: bool | None) -> JsonObject:
    return {
        "metadata": {"name": f"{service}-abcde", "labels": labels_of_slice(service)},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {} if each is None else {"ready": each}}
            for each in (ready or (True,))
        ],
    }


@asynccontextmanager
async def started_cluster() -> AsyncIterator[PlayedCluster]:
    cluster = PlayedCluster()
    cluster.all(*SLICES)
    await cluster.start()
    try:
        yield cluster
    finally:
        await cluster.stop()


class Keeping:
    """A process that keeps the namespace, as far as it is one."""

    def __init__(self, cluster: PlayedCluster, settings: PodSettings | None = None) -> None:
        self._server = ApiServer(ClusterSettings(cluster.url, "default"), LoopClock())
        self.kept = KeptNamespace(self._server, settings or PodSettings(), LoopClock(), lambda: NOW)
        self._task = asyncio.create_task(self.kept.run())

    async def end(self) -> None:
        self._task.cancel()
        await soon(asyncio.wait((self._task,)))
        await self._server.aclose()


@asynccontextmanager
async def kept(
    cluster: PlayedCluster, settings: PodSettings | None = None
) -> AsyncIterator[Keeping]:
    keeping = Keeping(cluster, settings)
    try:
        yield keeping
    finally:
        await keeping.end()


async def until_reasons(cluster: PlayedCluster, **reasons: str) -> None:
    """Wait until objects have these reasons, by name."""
    await eventually(lambda: reasons.items() <= cluster.reasons().items())


def names_of(objects: Iterable[tuple[str, str]]) -> list[str]:
    return sorted(name for _, name in objects)
