"""The kinds of objects that there are, as discovery names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
