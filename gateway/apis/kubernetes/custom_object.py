"""Custom objects as values: kinds, metadata, spec and status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

#: The path of the API on the gateway's port: a kubeconfig's ``server`` ends with it.
PREFIX: Final = "/kubernetes"

#: The only version of each group.
VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of custom resource.

    Attributes:
        kind: the kind in objects.
        plural: the name in paths.
        singular: the name of one object on the command line.
        short_names: the short names on the command line.
    """

    group: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]

    @property
    def api_version(self) -> str:
        """The group and the version, as objects name them."""
        return f"{self.group}/{VERSION}"


DEPLOYED_MODEL: Final = CustomKind(
    "prediction.aiplatform.gdc.goog", "DeployedModel", "deployedmodels", "deployedmodel", ("dm",)
)
ENDPOINT: Final = CustomKind("aiplatform.gdc.goog", "Endpoint", "endpoints", "endpoint", ("mep",))

KINDS: Final = (DEPLOYED_MODEL, ENDPOINT)

#: A gateway's report that a pod does not answer. Only clusters have this kind.
UNREACHABLE_POD: Final = CustomKind(
    "partway.dev", "UnreachablePod", "unreachablepods", "unreachablepod", ()
)


def kind_of(group: str, plural: str) -> CustomKind | None:
    for each in KINDS:
        if (each.group, each.plural) == (group, plural):
            return each
    return None


@dataclass(frozen=True, slots=True)
class CustomObject:
    """One object.

    Attributes:
        name: the name, unique within kind and namespace.
        uid: identifies this object among all that ever had its name.
        version: the version of its last change; all objects share one sequence of versions.
        generation: the number of its specs, from 1 on.
        created: the time of its creation, in RFC 3339 format.
        spec: the wanted state.
        status: the actual state.
        deleting: the time when its deletion began; empty if it is not being deleted.
        maker: the principal that has set the spec; empty if unknown.
    """

    kind: CustomKind
    namespace: str
    name: str
    uid: str
    version: int
    generation: int
    created: str
    spec: Mapping[str, Any] = field(default_factory=dict, repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    status: Mapping[str, Any] = field(default_factory=dict)
    deleting: str = ""
    maker: str = ""

    @classmethod
    def read(cls, kind: CustomKind, found: Mapping[str, Any]) -> Self:
        """Return an object of a cluster, as its JSON has it; spec and status are not checked."""
        metadata = found["metadata"]
        return cls(
            kind,
            metadata.get("namespace", ""),
            metadata["name"],
            metadata["uid"],
            int(metadata["resourceVersion"]),
            metadata.get("generation", 1),
            metadata.get("creationTimestamp") or "",
            without_nulls(found.get("spec", {})),
            metadata.get("labels") or {},
            metadata.get("annotations") or {},
            found.get("status") or {},
            metadata.get("deletionTimestamp") or "",
        )

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    def metadata(self) -> dict[str, Any]:
        """Return the metadata, sorted alphabetically as Kubernetes does."""
        return {
            **({"annotations": dict(self.annotations)} if self.annotations else {}),
            "creationTimestamp": self.created,
            **(
                {"deletionGracePeriodSeconds": 0, "deletionTimestamp": self.deleting}
                if self.deleting
                else {}
            ),
            "generation": self.generation,
            **({"labels": dict(self.labels)} if self.labels else {}),
            "name": self.name,
            "namespace": self.namespace,
            "resourceVersion": str(self.version),
            "uid": self.uid,
        }

    def shown(self) -> dict[str, Any]:
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": self.metadata(),
            "spec": dict(self.spec),
            **({"status": dict(self.status)} if self.status else {}),
        }


def without_nulls(value: Any) -> Any:
    """Return a value without null members, which count as missing."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [without_nulls(each) for each in value]
    return value
