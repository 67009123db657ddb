"""A cluster of a Kubernetes API server in memory, with pods in this process."""

from __future__ import annotations

from contextlib import AsyncExitStack

from partway.gateway.cluster.model_labels import ENDPOINT_LABEL
from partway.gateway.fleet.endpoint import Discovered, Endpoint, Variant
from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.gateway.gateway import Gateway
from partway.gateway.network.dialling import Address
from partway.gateway.settings.cluster_table import ClusterTable
from partway.gateway.settings.settings import Settings
from partway.gateway.workbench.testing.scripted_container import ScriptedContainer
from tests.gateway.cluster.fake_api_server import FakeApiServer

#: A busy machine may accept later than in the platform's 250 ms.
PATIENT = StreamPolicy(connect_timeout=5.0)


ENDPOINTS = ("aiplatform.gdc.goog/v1", "endpoints")


class Cluster:
    """An API server, and pods: containers, each with a slice of its own.

    Attributes:
        slices: the API version of its slices.
    """

    def __init__(
        self,
        up: AsyncExitStack,
        slices: str = "discovery.k8s.io/v1",
        server: FakeApiServer | None = None,
    ) -> None:
        self.server = server or FakeApiServer()
        self.slices = slices
        self.server.all(slices, "endpointslices")
        self._up = up
        self._pods: dict[str, Address] = {}

    async def start(self) -> None:
        await self.server.start()
        self._up.push_async_callback(self.server.stop)

    async def container(self, pod: str) -> ScriptedContainer:
        """Start a pod's container; no slice has it yet."""
        container = ScriptedContainer()
        self._pods[pod] = await container.start()
        self._up.push_async_callback(container.aclose)
        return container

    def service(self, name: str = "chat", *, endpoint: str = "chat", **spec: object) -> None:
        """Have a Service, with the label of a DeployedModel of an endpoint."""
        metadata = {"name": name, "labels": {ENDPOINT_LABEL: endpoint}}
        self.server.put("v1", "services", {"metadata": metadata, "spec": spec})

    def slice(self, pod: str, service: str = "chat", **conditions: bool) -> None:
        """Have a pod in a slice of a Service, with these conditions."""
        address = self._pods[pod]
        target = {"kind": "Pod", "name": pod, "uid": f"uid-of-{pod}"}
        entry = {"addresses": [address.host], "conditions": conditions, "targetRef": target}
        made = {
            "metadata": {"name": pod, "labels": {"kubernetes.io/service-name": service}},
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": address.port}],
            "endpoints": [entry],
        }
        self.server.put(self.slices, "endpointslices", made)

    def remove(self, pod: str) -> None:
        self.server.remove(self.slices, "endpointslices", pod)

    def endpoint(
        self,
        name: str = "chat",
        *,
        number: int = 0,
        id: str = "",
        namespace: str = "",
        deleting: bool = False,
        **shares: int,
    ) -> None:
        """Have an Endpoint object with the shares of its DeployedModels, of this namespace."""
        place = {"namespace": namespace} if namespace else {}
        destinations = [
            {
                "serviceRef": {"kind": "DeployedModel", "name": model, **place},
                "trafficPercentage": share,
            }
            for model, share in shares.items()
        ]
        spec = {"destinations": destinations, **({"id": id} if id else {})}
        created = f"2026-11-22T16:31:{number:02}Z"
        metadata = {"name": name, "creationTimestamp": created}
        if deleting:
            metadata["deletionTimestamp"] = created
        self.server.put(*ENDPOINTS, {"metadata": metadata, "spec": spec})

    async def gateway(self, *endpoints: Endpoint, **table: object) -> Gateway:
        """Start a gateway; by default with the endpoint ``chat`` of the Service ``chat``."""
        cluster = ClusterTable(server=self.server.url, namespace="default", **table)  # type: ignore[arg-type]
        settings = Settings(
            port=0,
            endpoints=endpoints or (() if cluster.endpoints else (discovered(),)),
            cluster=cluster,
            shutdown_grace=0.0,
            shutdown_spread=0.0,
            shutdown_hard=1.0,
        )
        gateway = Gateway(settings)
        await gateway.start()
        self._up.push_async_callback(gateway.drain)
        return gateway


def discovered(
    name: str = "chat", service: str = "chat", port: int | str | None = None
) -> Endpoint:
    return Endpoint(name, PATIENT, (Variant(source=Discovered(service, port)),))


def pods_of(gateway: Gateway, endpoint: str = "chat") -> set[str]:
    """The keys of the pods that take streams."""
    variants = gateway.router.variants(endpoint)
    return {each.key.removeprefix("uid-of-") for one in variants for each in one.instances}


def url_of(gateway: Gateway) -> str:
    assert gateway.ports is not None
    return f"http://127.0.0.1:{gateway.ports.listening.port}"
