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
from partway.gateway.cluster.endpoint_slices import (
    SERVICE_LABEL,
    ServiceRefused,
    find_instances,
)
from partway.gateway.cluster.model_labels import ENDPOINT_LABEL, MODEL_LABEL
from partway.gateway.cluster.slices_version import slices_version
from partway.gateway.cluster.watched_collection import ObjectKey, OnChange, WatchedCollection
from partway.gateway.operator.cluster_errors import ClusterUnavailable, unavailable
from partway.gateway.operator.deployment_status import deployment_readiness
from partway.gateway.operator.model_deployments import (
    Abilities,
    Manifest,
    Manifests,
    ModelDataAccess,
    in_place_of,
    is_made_of,
    is_owned,
    manifests,
)
from partway.gateway.timing.clock import Clock

_POLICY: Final = "policy"

#: The version of Kubernetes from which on a pod can wait before SIGTERM by itself.
_SLEEPS: Final = (1, 30)

#: A Deployment that is not yet made of what its DeployedModel says.
_PENDING: Final = Readiness("Pending", "Its Deployment is about to be created")
_CHANGING: Final = Readiness("Progressing", "Its Deployment is about to be changed")

#: Members of a pod's metadata that a change of its annotations changes, too.
_CHANGED_WITH_ANNOTATIONS: Final = frozenset({"annotations", "managedFields", "resourceVersion"})

#: Statuses of refusals that only another spec can change.
_FOR_GOOD: Final = frozenset({400, 422})


class _Taken(Exception):
    """An object's name is taken by an object that the operator did not make."""


class _Copies(NamedTuple):
    services: WatchedCollection
    budgets: WatchedCollection
    deployments: WatchedCollection
    slices: WatchedCollection
    pods: WatchedCollection


class ClusterEndpoints:
    """Keeps what each DeployedModel needs, all of its name.

    These are a Deployment, a headless Service and a PodDisruptionBudget.

    It is an :class:`~partway.gateway.apis.kubernetes.endpoint_backend.EndpointBackend`. A
    DeployedModel runs whether an Endpoint names it or not. Kubernetes removes what belongs to a
    deleted DeployedModel, by the owner references.

    Every write can be repeated: names are fixed, and an object that exists already is looked at
    before it is changed. So it does not matter where an operator is killed: the next one goes on.

    Args:
        objects: the objects of the namespace.

    Attributes:
        on_pod_change: called when a pod of a DeployedModel has changed, but for its annotations.
    """

    def __init__(
        self, server: ApiServer, objects: ObjectStore, clock: Clock, data: ModelDataAccess
    ) -> None:
        self.on_change: Callable[[str], object] = lambda _: None
        self.on_other_settings: Callable[[], object] = lambda: None
        self.on_pod_change: Callable[[], object] = lambda: None
        self._server = server
        self._objects = objects
        self._clock = clock
        self._data = data
        self._namespace = server.settings.namespace
        self._is_local = server.settings.is_local
        self._can: Abilities  # from prepare() on
        self._copies: _Copies  # likewise
        #: Why a DeployedModel cannot have what it needs, by its name.
        self._troubles: dict[str, Readiness] = {}

    async def prepare(self) -> None:
        """Find out what the cluster's version has; call this first.

        Raises:
            ClusterError: the server cannot be asked.
        """
        self._can = Abilities(
            await self._server.release() >= _SLEEPS,
            await self._policy_version(),
            await slices_version(self._server),
        )
        self._copies = _Copies(
            self._copy("v1", "services"),
            self._copy(self._can.policy, "poddisruptionbudgets"),
            self._copy("apps/v1", "deployments"),
            self._copy(self._can.slices, "endpointslices", SERVICE_LABEL),
            self._copy("v1", "pods", MODEL_LABEL, self._pod_changed),
        )

    async def _policy_version(self) -> str:
        served = await self._server.versions(_POLICY)
        return f"{_POLICY}/{'v1' if 'v1' in served or not served else served[0]}"

    @property
    def copies(self) -> Iterable[WatchedCollection]:
        """The copies of the cluster's objects, which the owner starts and closes."""
        return self._copies

    @property
    def pods(self) -> WatchedCollection:
        """The pods of all DeployedModels."""
        return self._copies.pods

    @property
    def slices_version(self) -> str:
        """The API version of slices that the server has."""
        return self._copies.slices.collection.api_version

    def _copy(
        self, api_version: str, plural: str, labels: str = "", on_change: OnChange | None = None
    ) -> WatchedCollection:
        collection = Collection(api_version, plural, self._namespace, labels)
        told = on_change or self._changed
        return WatchedCollection(self._server, collection, self._clock, told)

    def _pod_changed(
        self, key: ObjectKey, now: ClusterObject | None, before: ClusterObject | None
    ) -> None:
        if (
            now is not None
            and before is not None
            and _without_annotations(now) == _without_annotations(before)
        ):
            return  # such as by BusyPods, for many pods at once
        self._changed(key, now, before)
        self.on_pod_change()

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
                self._troubles.setdefault(
                    model.name, Readiness(_CHANGING.reason, f"{_CHANGING.message}: {error}")
                )
        for gone in [each for each in self._troubles if not self._is_known(each)]:
            del self._troubles[gone]
        if failed is not None:
            raise failed

    def _is_known(self, model: str) -> bool:
        return self._objects.find(DEPLOYED_MODEL, self._namespace, model) is not None

    async def _have_model(self, model: CustomObject) -> None:
        """Have a DeployedModel's objects, the Deployment last, or note why that is impossible."""
        self._troubles.pop(model.name, None)
        for copy, made in zip(
            self._copies[: len(Manifests._fields)], self._made(model), strict=True
        ):
            try:
                await self._have_object(model, copy, made)
            except _Taken as taken:
                self._troubles[model.name] = Readiness("Refused", str(taken))
                return
            except ClusterRefusal as refusal:
                self._troubles[model.name] = Readiness("Refused", str(refusal))
                if refusal.status not in _FOR_GOOD:
                    raise
                return

    def _made(self, model: CustomObject) -> Manifests:
        return manifests(model, self._data, self._can)

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

    def _readiness(self, name: str) -> Readiness:
        if trouble := self._troubles.get(name):
            return trouble
        model = self._objects.find(DEPLOYED_MODEL, self._namespace, name)
        deployment = self._copies.deployments.objects.get(ObjectKey(self._namespace, name))
        if model is None or deployment is None:
            return _PENDING
        if not is_made_of(deployment, self._made(model).deployment):
            return _CHANGING
        pods = _labelled(self._copies.pods, MODEL_LABEL, name)
        return deployment_readiness(deployment, pods, serves=self._serves(name, endpoint_of(model)))

    def _serves(self, model: str, endpoint: str) -> bool:
        """Whether gateways find an instance of a DeployedModel, of whichever version."""
        service = self._copies.services.objects.get(ObjectKey(self._namespace, model))
        labels = (service or {}).get("metadata", {}).get("labels") or {}
        if service is None or labels.get(ENDPOINT_LABEL) != endpoint:
            return False
        slices = _labelled(self._copies.slices, SERVICE_LABEL, model)
        try:
            return find_instances(service, slices, loopback=self._is_local).has_ready
        except ServiceRefused:
            return False


def _without_annotations(pod: ClusterObject) -> ClusterObject:
    """Return a pod without its annotations, and what each change of them changes."""
    metadata = {
        key: each for key, each in pod["metadata"].items() if key not in _CHANGED_WITH_ANNOTATIONS
    }
    return {**pod, "metadata": metadata}


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
