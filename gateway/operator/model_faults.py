"""Why a DeployedModel that satisfies its schema cannot run in a cluster: pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.schemas import Cause, fault
from partway.gateway.cluster.model_labels import PREFIX
from partway.gateway.fleet.platform_interface import OF_VERTEX, PORT_VARIABLE
from partway.gateway.operator.model_deployments import ModelDataAccess
from partway.gateway.operator.pod_options import pod_options
from partway.gateway.plain_text import cut, safe

_S3: Final = "s3://"

#: Characters of a place of model data that a fault repeats.
_SHOWN: Final = 256


def model_faults(model: CustomObject, data: ModelDataAccess) -> Iterator[Cause]:
    """Yield why a DeployedModel that satisfies its schema cannot run in a cluster."""
    options, faults = pod_options(model.annotations)
    yield from faults
    spec = model.spec["modelSpec"]
    variables = [each["name"] for each in spec["modelContainerSpec"].get("env", ())]
    path = "spec.modelSpec.modelContainerSpec.env"
    for name in variables:
        if name == PORT_VARIABLE:
            yield fault(path, f"{name} was given, which only the operator sets; leave it out")
        elif name in OF_VERTEX:
            yield fault(path, f"{name} was given; containers of Vertex AI do not run in a cluster")
    if len(set(variables)) < len(variables):
        yield fault(path, "a variable is given twice; each must be given once")
    if "artifactLocation" in spec:
        path = "spec.modelSpec.artifactLocation"
        if options.volume is not None:
            yield fault(path, f"must not be given beside the annotation {PREFIX}model-volume")
        else:
            yield from _place_faults(spec["artifactLocation"], path, data)


def _place_faults(place: Any, path: str, data: ModelDataAccess) -> Iterator[Cause]:
    shown = repr(cut(safe(str(place)), _SHOWN))
    if not data.image:
        yield fault(
            path,
            "the operator has no image that fetches model data; set its --image, or name a "
            f"volume by the annotation {PREFIX}model-volume",
        )
    elif _segments(place) is None:
        yield fault(
            path,
            f"{shown} was given; it must be s3://BUCKET/PREFIX or an archive there, without a $",
        )
    elif data.roots and not any(is_below(place, each) for each in data.roots):
        roots = ", ".join(data.roots)
        yield fault(path, f"{shown} was given; the operator allows places below {roots} alone")


def is_below(place: str, root: str) -> bool:
    """Whether a place at ``s3://`` is a folder, or is below it; no other place is."""
    found, above = _segments(place), _segments(root)
    if found is None or above is None:
        return False
    return found[: len(above)] == above


def is_root(text: str) -> bool:
    """Whether a text names a bucket, or a folder of it."""
    return _segments(text) is not None


def _segments(place: str) -> list[str] | None:
    """Return bucket and folders; None for what is no place at ``s3://``.

    A ``$`` is refused too: the place is an argument of a container with a secret in its
    environment, which ``$(NAME)`` would name.
    """
    if not place.startswith(_S3) or not place.isprintable() or "$" in place:
        return None
    segments = place.removeprefix(_S3).rstrip("/").split("/")
    return None if {"", ".", ".."} & set(segments) else segments
