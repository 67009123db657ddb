"""The manifest of Kubernetes' API."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from partway.gateway.apis.manifest import Manifest
from partway.gateway.configuration.expected import text
from partway.protocol.limits import DNS_NAME


@dataclass(frozen=True)
class KubernetesSettings:
    """The settings of Kubernetes' API.

    Attributes:
        endpoint_domain: the suffix of the domain names of endpoints that kubectl shows.
    """

    endpoint_domain: Annotated[
        str, text("a DNS name of small letters, such as models.example", DNS_NAME.fullmatch)
    ] = "localhost"


MANIFEST: Final = Manifest(
    "kubernetes",
    "partway.gateway.apis.kubernetes.api",
    paths=(re.compile("/kubernetes(?:/.*)?"),),
    needs=("control",),
    settings=KubernetesSettings,
)
