"""The manifests of all APIs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from partway.gateway.apis.asynchronous import manifest as asynchronous
from partway.gateway.apis.control import manifest as control
from partway.gateway.apis.grpc import manifest as grpc
from partway.gateway.apis.kubernetes import manifest as kubernetes
from partway.gateway.apis.logs import manifest as logs
from partway.gateway.apis.manifest import Manifest
from partway.gateway.apis.open_inference import manifest as open_inference
from partway.gateway.apis.openai import manifest as openai
from partway.gateway.apis.openapi import manifest as openapi
from partway.gateway.apis.prediction import manifest as prediction
from partway.gateway.apis.runtime import manifest as runtime
from partway.gateway.apis.transform_jobs import manifest as transform_jobs

#: The order of installation: each API comes after those that it needs.
MANIFESTS: Final[tuple[Manifest, ...]] = (
    runtime.MANIFEST,
    control.MANIFEST,
    asynchronous.MANIFEST,
    logs.MANIFEST,
    transform_jobs.MANIFEST,
    prediction.MANIFEST,
    open_inference.MANIFEST,
    openai.MANIFEST,
    openapi.MANIFEST,
    kubernetes.MANIFEST,
    grpc.MANIFEST,
)

NAMES: Final = frozenset(each.name for each in MANIFESTS)


def missing(names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each of the APIs that needs one which is missing, together with the missing one."""
    for each in MANIFESTS:
        if each.name in names:
            yield from ((each.name, needed) for needed in each.needs if needed not in names)
