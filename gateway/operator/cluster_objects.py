"""ClusterObjects: the custom objects of a cluster's namespace, as the controller needs them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Final

from partway.gateway.apis.kubernetes.conditions import Readiness, endpoint_status, model_status
from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    KINDS,
    CustomKind,
    CustomObject,
)
from partway.gateway.apis.kubernetes.endpoint_rules import (
    endpoint_of,
    in_words,
    object_faults,
    owned_by,
    owner_of,
)
from partway.gateway.apis.kubernetes.schemas import Cause
from partway.gateway.apis.kubernetes.work_queue import WorkQueue
from partway.gateway.cluster import answers
from partway.gateway.cluster.answers import ClusterError, ClusterObject, NoSuchObject, WriteConflict
from partway.gateway.cluster.api_server import ApiServer
from partway.gateway.cluster.watched_collection import ObjectKey, WatchedCollection
from partway.gateway.operator.cluster_errors import unavailable
from partway.gateway.operator.limits import REFUSALS_AT_ONCE, RETRY_INTERVAL
from partway.gateway.timing.clock import Clock
from partway.log_lines import LogLine

log = logging.getLogger("partway.operator")

_NO_OBJECTS: Final[Mapping[tuple[str, str], CustomObject]] = {}


class ClusterObjects:
    """The DeployedModels and Endpoints of the operator's namespace.

    It is an :class:`~partway.gateway.apis.kubernetes.object_store.ObjectStore`. An object that
    cannot be honoured is not among its objects; its status says ``Refused``, and why.

    No object gets a finalizer: owner references have Kubernetes itself remove the rest of a deleted
    object. So a deletion ends while the operator is away, too.

    Args:
        model_faults: yields why a DeployedModel that satisfies its schema cannot run.
        now: returns the time in RFC 3339 format.
        domain: the suffix of each endpoint's domain name.
    """

    def __init__(
        self,
        server: ApiServer,
        clock: Clock,
        model_faults: Callable[[CustomObject], Iterable[Cause]],
        now: Callable[[], str],
        domain: str,
    ) -> None:
        self.on_change: Callable[[CustomObject, CustomObject | None], object] = lambda *_: None
        self._server = server
        self._model_faults = model_faults
        self._now = now
        self._domain = domain
        self._valid: dict[CustomKind, dict[tuple[str, str], CustomObject]] = {
            kind: {} for kind in KINDS
        }
        self._refused: dict[CustomKind, dict[tuple[str, str], CustomObject]] = {
            kind: {} for kind in KINDS
        }
        self._of_endpoints: dict[CustomKind, dict[str, dict[tuple[str, str], CustomObject]]] = {
            kind: {} for kind in KINDS
        }
        self._conflicts: set[tuple[CustomKind, tuple[str, str]]] = set()
        self._refusals = WorkQueue(self._note_refusal, REFUSALS_AT_ONCE, clock)
        namespace = server.settings.namespace
        self._copies = {
            kind: WatchedCollection(
                server,
                answers.Collection(kind.api_version, kind.plural, namespace),
                clock,
                partial(self._changed, kind),
            )
            for kind in KINDS
        }

    @property
    def copies(self) -> Collection[WatchedCollection]:
        """The copies of the objects, which the owner starts and closes."""
        return self._copies.values()

    async def aclose(self) -> None:
        """Stop; the copies are their owner's to close."""
        await self._refusals.aclose()

    # --- Reading ---------------------------------------------------------------------------------

    def find(self, kind: CustomKind, namespace: str, name: str) -> CustomObject | None:
        return self._valid[kind].get((namespace, name))

    def all(self, kind: CustomKind) -> Iterable[CustomObject]:
        return self._valid[kind].values()

    def of_endpoint(self, kind: CustomKind, name: str) -> Collection[CustomObject]:
        found = self._of_endpoints[kind].get(name, _NO_OBJECTS).values()
        if kind is ENDPOINT and len(found) > 1:
            return [owner_of(found)]  # the others are refused
        return found

    # --- Writing ---------------------------------------------------------------------------------

    def changing(self) -> AbstractAsyncContextManager[None]:
        """Return at once: each write names the version that it is about."""
        return nullcontext()

    async def put(self, changed: CustomObject) -> CustomObject:
        """Write an object's status.

        If the object has changed meanwhile, its next event has it checked again.

        Raises:
            ClusterUnavailable: it cannot be written now.
        """
        copy = self._copies[changed.kind]
        changes = {
            "metadata": {"resourceVersion": str(changed.version)},
            "status": dict(changed.status),
        }
        collection = copy.collection
        try:
            written = await self._server.patch(
                collection, changed.name, changes, subresource="status"
            )
        except WriteConflict:
            self._after_conflict(changed)
            return changed
        except NoSuchObject:  # its event comes
            return changed
        except ClusterError as error:
            raise unavailable(error) from error
        copy.take(written)
        return changed

    async def remove(self, gone: CustomObject) -> CustomObject:
        """Do nothing: without a finalizer of ours, Kubernetes removes a deleted object itself."""
        return gone

    def _after_conflict(self, changed: CustomObject) -> None:
        known = self._valid[changed.kind].get(changed.key)
        if known is not None and known.version > changed.version:
            self.on_change(known, known)  # the event has come already
        else:
            self._conflicts.add((changed.kind, changed.key))

    # --- Following -------------------------------------------------------------------------------

    def _changed(
        self,
        kind: CustomKind,
        key: ObjectKey,
        now: ClusterObject | None,
        _: ClusterObject | None,
    ) -> None:
        place = (key.namespace, key.name)
        before = self._drop(kind, place)
        changed = None
        if now is not None:
            status = _status(now.get("status"))
            changed = dataclasses.replace(CustomObject.read(kind, now), status=status)
            if not self._faults(changed):
                self._keep(changed)
            else:
                self._refused[kind][place] = changed
                self._refusals.add(_refusal_name(kind, place))
                changed = None
        if (kind, place) in self._conflicts:
            self._conflicts.discard((kind, place))
            before = changed  # its status is to be looked at, though it is all that has changed
        told = changed or before
        if told is not None:
            self.on_change(told, before)
        if kind is ENDPOINT:
            for each in {endpoint_of(each) for each in (changed, before) if each is not None}:
                self._note_rivals(each)

    def _note_rivals(self, name: str) -> None:
        rivals = self._of_endpoints[ENDPOINT].get(name, _NO_OBJECTS)
        if len(rivals) > 1:
            for each in rivals:
                self._refusals.add(_refusal_name(ENDPOINT, each))

    def _keep(self, made: CustomObject) -> None:
        self._valid[made.kind][made.key] = made
        self._of_endpoints[made.kind].setdefault(endpoint_of(made), {})[made.key] = made

    def _drop(self, kind: CustomKind, key: tuple[str, str]) -> CustomObject | None:
        self._refused[kind].pop(key, None)
        gone = self._valid[kind].pop(key, None)
        if gone is not None:
            of_endpoints, name = self._of_endpoints[kind], endpoint_of(gone)
            of_endpoints[name].pop(key)
            if not of_endpoints[name]:
                del of_endpoints[name]
        return gone

    # --- Refusals --------------------------------------------------------------------------------

    def _faults(self, custom: CustomObject) -> list[Cause]:
        wrong = list(object_faults(custom))
        if not wrong and custom.kind is DEPLOYED_MODEL:
            wrong = list(self._model_faults(custom))
        return wrong

    def _why_refused(
        self, kind: CustomKind, key: tuple[str, str]
    ) -> tuple[CustomObject, str] | None:
        """Return an object that is refused, and why; None if it is not, or is gone."""
        if (refused := self._refused[kind].get(key)) is not None:
            return refused, in_words(self._faults(refused))
        known = self._valid[kind].get(key)
        if known is None or kind is not ENDPOINT:
            return None
        (owner,) = self.of_endpoint(ENDPOINT, endpoint_of(known))
        return None if owner.key == key or known.deleting else (known, owned_by(owner))

    async def _note_refusal(self, name: str) -> None:
        plural, *key = name.split("/")
        kind = DEPLOYED_MODEL if plural == DEPLOYED_MODEL.plural else ENDPOINT
        found = self._why_refused(kind, (key[0], key[1]))
        if found is None:
            return
        refused, why = found
        how = Readiness("Refused", why)
        if kind is DEPLOYED_MODEL:
            status = model_status(refused, how, self._now())
        else:
            domain = f"{refused.name}.{self._domain}"
            status = endpoint_status(refused, how, domain, self._now())
        if status == refused.status:
            return
        changes = {
            "metadata": {"resourceVersion": str(refused.version)},
            "status": dict(status),
        }
        copy = self._copies[kind]
        try:
            await self._server.patch(copy.collection, refused.name, changes, subresource="status")
        except (WriteConflict, NoSuchObject):
            pass  # its next event has it checked again
        except ClusterError as error:
            log.warning(LogLine("a refusal could not be written; trying again", reason=str(error)))
            self._refusals.add_later(name, RETRY_INTERVAL)


def _status(status: Any) -> Mapping[str, Any]:
    """Return a status that the operator has written; an empty one in place of any other."""
    if not isinstance(status, dict):
        return {}
    conditions = status.get("conditions", [])
    primary = status.get("primaryCondition", {})
    is_list = isinstance(conditions, list) and len(conditions) <= 1
    if not is_list or not isinstance(primary, dict) or (not primary and not conditions):
        return {}
    times = {"firstObservedTime", "lastUpdateTime"}
    if primary and not times <= primary.keys():
        return {}
    for each in conditions:
        if not isinstance(each, dict) or not {"status", "lastTransitionTime"} <= each.keys():
            return {}
    return status


def _refusal_name(kind: CustomKind, key: tuple[str, str]) -> str:
    return "/".join((kind.plural, *key))
