"""An object as a value: what is to be, what is, and what is noted of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

#: Where the API is on the gateway's port: a kubeconfig's ``server`` ends with it.
PREFIX: Final = "/kubernetes"

#: The one version that each group has.
VERSION: Final = "v1"


@dataclass(frozen=True, slots=True)
class CustomKind:
    """One kind of custom resource.

    Attributes:
        group: its API group.
        kind: as objects name it.
        plural: as paths name it.
        singular: as people name one.
        short_names: as people name it in a hurry.
    """

    group: str
    kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]

    @property
    def api_version(self) -> str:
        """Group and version, as objects name them."""
        return f"{self.group}/{VERSION}"


DEPLOYED_MODEL: Final = CustomKind(
    "prediction.aiplatform.gdc.goog", "DeployedModel", "deployedmodels", "deployedmodel", ("dm",)
)
ENDPOINT: Final = CustomKind("aiplatform.gdc.goog", "Endpoint", "endpoints", "endpoint", ("ep",))

KINDS: Final = (DEPLOYED_MODEL, ENDPOINT)


def kind_of(group: str, plural: str) -> CustomKind | None:
    """The kind that a path names; None if there is none."""
    for each in KINDS:
        if (each.group, each.plural) == (group, plural):
            return each
    return None


@dataclass(frozen=True, slots=True)
class CustomObject:
    """One object.

    Attributes:
        kind: its kind.
        namespace: where it is.
        name: a kind and a namespace have it once.
        uid: of this object, and of no other of its name.
        version: of the last change of all that there were when it was last changed itself.
        generation: how often its spec has been changed, from 1 on.
        created: when, as RFC 3339 has it.
        spec: what is to be.
        labels: its labels.
        annotations: what else is noted of it.
        status: what is.
        deleting: since when it goes; empty as long as it does not.
        maker: the principal that has set the spec; empty if that is unknown.
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

    @property
    def key(self) -> tuple[str, str]:
        """Its namespace and its name."""
        return self.namespace, self.name

    def metadata(self) -> dict[str, Any]:
        """Its metadata, members in the order of the alphabet as Kubernetes has them."""
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
        """The whole object, as JSON has it."""
        return {
            "apiVersion": self.kind.api_version,
            "kind": self.kind.kind,
            "metadata": self.metadata(),
            "spec": dict(self.spec),
            **({"status": dict(self.status)} if self.status else {}),
        }
