"""ClusterEndpoints: DeployedModels as Deployments and Services of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from partway.gateway.apis.kubernetes.conditions import (
    ENDPOINT_MESSAGE,
    RESOURCE_NOT_READY,
    RESOURCE_READY,
    Readiness,
)
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, CustomObject
from partway.gateway.apis.kubernetes.deployment_from_spec import WantedEndpoint
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.apis.kubernetes.object_store import ObjectStore
from partway.gateway.cluster.answers import (
    ClusterError,
    ClusterObject,
    ClusterRefusal,
    Collection,
    WriteConflict,
)
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.endpoint_slices import SERVICE_LABEL, has_ready_instance
from partway.gateway.cluster.model_labels import ENDPOINT_LABEL, MODEL_LABEL
from partway.gateway.cluster.slices_version import slices_version
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.operator.cluster_errors import ClusterUnavailable, unavailable
from partway.gateway.operator.deployment_status import deployment_readiness
from partway.gateway.operator.model_deployments import (
    Manifest,
    ModelDataAccess,
    in_place_of,
    is_made_of,
    is_owned,
    manifests,
)
from partway.gateway.timing.clock import Clock

#: Statuses of refusals that only another spec can change.
_FOR_GOOD: Final = frozenset({400, 422})


class _Taken(Exception):
    """An object's name is taken by an object that the operator did not make."""


class _Copies(NamedTuple):
    deployments: WatchedCollection
    services: WatchedCollection
    slices: WatchedCollection
    pods: WatchedCollection


class ClusterEndpoints:
    """Keeps one Deployment and one headless Service for each DeployedModel, both of its name.

    It is an :class:`~partway.gateway.apis.kubernetes.endpoint_backend.EndpointBackend`. A
    DeployedModel runs whether an Endpoint names it or not. Kubernetes removes what belongs to a
    deleted DeployedModel, by the owner references.

    Every write can be repeated: names are fixed, and an object that exists already is looked at
    before it is changed. So it does not matter where an operator is killed: the next one goes on.

    Args:
        objects: the objects of the namespace.
    """

    def __init__(
        self, server: ApiServer, objects: ObjectStore, clock: Clock, data: ModelDataAccess
    ) -> None:
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_other_settings: Callable[[], object] = lambda: None
        self._server = server
        self._objects = objects
        self._clock = clock
        self._data = data
        self._namespace = server.settings.namespace
        self._copies: _Copies  # from prepare() on
        #: Why a DeployedModel cannot have what it needs, by its name.
        self._troubles: dict[str, str] = {}

    async def prepare(self) -> None:
        """Find out which EndpointSlices the server has; call this first.

        Raises:
            ClusterError: the server cannot be asked.
        """
        slices = await slices_version(self._server)
        self._copies = _Copies(
            self._copy("apps/v1", "deployments"),
            self._copy("v1", "services"),
            self._copy(slices, "endpointslices", SERVICE_LABEL),
            self._copy("v1", "pods", MODEL_LABEL),
        )

    @property
    def copies(self) -> Iterable[WatchedCollection]:
        """The copies of the cluster's objects, which the owner starts and closes."""
        return self._copies

    @property
    def pods(self) -> WatchedCollection:
        """The pods of all DeployedModels."""
        return self._copies.pods

    def _copy(self, api_version: str, plural: str, labels: str = "") -> WatchedCollection:
        collection = Collection(api_version, plural, self._namespace, labels)
        return WatchedCollection(self._server, collection, self._clock, self._changed)

    def _changed(
        self, key: ObjectKey, now: ClusterObject | None, before: ClusterObject | None
    ) -> None:
        found = now or before or {}
        labels = found["metadata"].get("labels") or {}
        name = labels.get(SERVICE_LABEL) or labels.get(MODEL_LABEL) or key.name
        model = self._objects.find(DEPLOYED_MODEL, self._namespace, name)
        # A DeployedModel that was deleted, or is refused, may still have served.
        endpoint = labels.get(ENDPOINT_LABEL) if model is None else endpoint_of(model)
        if endpoint is not None:
            self.on_change(endpoint)

    # --- Changes ---------------------------------------------------------------------------------

    def start(self) -> None:
        """Do nothing: the copies tell of changes."""

    def names(self) -> Iterable[str]:
        """Return nothing: Kubernetes removes what belongs to deleted objects."""
        return ()

    async def have(self, name: str, wanted: WantedEndpoint | None) -> None:
        failed: ClusterUnavailable | None = None
        for model in list(self._objects.of_endpoint(DEPLOYED_MODEL, name)):
            if model.deleting:
                continue
            try:
                await self._have_model(model)
            except ClusterError as error:
                failed = unavailable(error)
        for gone in [each for each in self._troubles if not self._is_known(each)]:
            del self._troubles[gone]
        if failed is not None:
            raise failed

    def _is_known(self, model: str) -> bool:
        return self._objects.find(DEPLOYED_MODEL, self._namespace, model) is not None

    async def _have_model(self, model: CustomObject) -> None:
        """Have a DeployedModel's Service and Deployment, or note why that is impossible."""
        self._troubles.pop(model.name, None)
        copies = (self._copies.services, self._copies.deployments)
        for copy, made in zip(copies, manifests(model, self._data), strict=True):
            try:
                await self._have_object(model, copy, made)
            except _Taken as taken:
                self._troubles[model.name] = str(taken)
                return
            except ClusterRefusal as refusal:
                self._troubles[model.name] = str(refusal)
                if refusal.status not in _FOR_GOOD:
                    raise
                return

    async def _have_object(
        self, model: CustomObject, copy: WatchedCollection, wanted: Manifest
    ) -> None:
        found = copy.objects.get(ObjectKey(model.namespace, model.name))
        try:
            if found is None:
                await self._server.create(copy.collection, wanted)
                return
            _check_is_ours(found, wanted, model)
            if found["metadata"].get("deletionTimestamp") or is_made_of(found, wanted):
                return
            changed = in_place_of(found, wanted)
            copy.take(await self._server.replace(copy.collection, model.name, changed))
        except WriteConflict:
            return  # it exists, or has changed: its event comes, and has it looked at again

    async def let_go(self, model: CustomObject) -> bool:
        return True

    def is_gone(self, name: str) -> bool:
        return True

    # --- State -----------------------------------------------------------------------------------

    def model_readiness(
        self, model: CustomObject, wanted: WantedEndpoint | None, trouble: str
    ) -> Readiness:
        return self._readiness(model.name)

    def endpoint_readiness(self, wanted: WantedEndpoint, trouble: str) -> Readiness:
        absent = (
            f"There is no DeployedModel {', '.join(wanted.missing)} with the endpointPath "
            f"endpoints/{wanted.name}, or it is refused"
            if wanted.missing
            else ""
        )
        used = [model for model, share in wanted.shares.items() if share]
        states = [self._readiness(model) for model in used]
        if any(self._serves(each, wanted.name) for each in (*used, *wanted.missing)):
            others = next((each.message for each in states if not each.is_ready), "")
            said = "; ".join(filter(None, (ENDPOINT_MESSAGE, absent or others)))
            return Readiness(RESOURCE_READY, said, is_ready=True)
        if not used:
            said = absent or "No destination gets traffic"
            return Readiness("DestinationNotFound" if absent else RESOURCE_NOT_READY, said)
        first = states[0]
        word = RESOURCE_NOT_READY if first.reason in ("NotReady", "Ready") else first.reason
        if word == "Pending":
            word = "Progressing"
        return Readiness(word, first.message)

    def _readiness(self, model: str) -> Readiness:
        if trouble := self._troubles.get(model):
            return Readiness("Refused", trouble)
        deployment = self._copies.deployments.objects.get(ObjectKey(self._namespace, model))
        return deployment_readiness(deployment, self._slices_of(model), self._pods_of(model))

    def _serves(self, model: str, endpoint: str) -> bool:
        """Whether a gateway finds an instance of a DeployedModel, of whichever version."""
        service = self._copies.services.objects.get(ObjectKey(self._namespace, model), {})
        labels = service.get("metadata", {}).get("labels") or {}
        is_of_endpoint = labels.get(ENDPOINT_LABEL) == endpoint
        return is_of_endpoint and has_ready_instance(self._slices_of(model))

    def _slices_of(self, model: str) -> Iterator[ClusterObject]:
        return _labelled(self._copies.slices, SERVICE_LABEL, model)

    def _pods_of(self, model: str) -> Iterator[ClusterObject]:
        return _labelled(self._copies.pods, MODEL_LABEL, model)


def _labelled(copy: WatchedCollection, label: str, value: str) -> Iterator[ClusterObject]:
    for each in copy.objects.values():
        if (each["metadata"].get("labels") or {}).get(label) == value:
            yield each


def _check_is_ours(found: ClusterObject, wanted: Manifest, model: CustomObject) -> None:
    if is_owned(found, model):
        return
    kind, owners = wanted["kind"], found["metadata"].get("ownerReferences") or ()
    mark: tuple[Any, ...] = (model.kind.kind, model.name)
    if any((each.get("kind"), each.get("name")) == mark for each in owners):
        raise _Taken(
            f"the {kind} {model.name} still belongs to an earlier DeployedModel of this name; it "
            "is replaced once Kubernetes has removed it"
        )
    raise _Taken(
        f"there is a {kind} {model.name} that the operator did not make; delete it, or give the "
        "DeployedModel another name"
    )
