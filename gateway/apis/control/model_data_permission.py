"""Permission to read model data, checked for the principal that made the model.

The gateway reads model data with its own credentials, which may read more than a caller may. So it
checks ``s3:GetObject`` for the model's maker: when the model is created, when it is deployed, and
before each download. Models of the gateway's operator are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.access.creator_permission import MakersLeave
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.storage.model_data.sources import location_of
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import (
    SCHEME,
    arn_of_location,
    is_local,
    path_as_named,
)

_ACTION: Final = "s3:GetObject"


def model_data_of(container: Mapping[str, Any], roots: LocalRoots) -> str | None:
    """Return the location of the model data in a container's definition, for the fleet.

    Args:
        roots: the folders that may hold paths of this machine.

    Raises:
        ValidationException: the location cannot be used.
    """
    url = container.get("ModelDataUrl")
    source = container.get("ModelDataSource", {}).get("S3DataSource")
    if url and source:
        raise ValidationException(
            "ModelDataUrl and ModelDataSource are both given; only one of them may be given."
        )
    if source is not None:
        return _of_source(source, roots)
    return _place(url, roots) if url else None


def named_places(container: Mapping[str, Any]) -> tuple[str, ...]:
    """Return all locations of model data in a container's definition, unchecked."""
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    return container.get("ModelDataUrl", ""), source.get("S3Uri", "")


def named_locations(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the locations that the gateway would read for a definition; see ``location_of()``.

    No file is looked at: the ``..`` of a local path are resolved in the text.
    """
    source = container.get("ModelDataSource", {}).get("S3DataSource", {})
    places = [container.get("ModelDataUrl", "")]
    if source:
        place: str = source["S3Uri"]
        places.append(_with_slash(place) if _is_prefix(source) else place)
    for place in places:
        if is_local(place):
            if (path := path_as_named(place)) is not None:
                yield location_of(str(path))
        elif place.startswith(SCHEME):
            yield place


def _is_prefix(source: Mapping[str, Any]) -> bool:
    return (source["S3DataType"], source["CompressionType"]) == ("S3Prefix", "None")


def _with_slash(place: str) -> str:
    return place if place.startswith("/") or place.endswith("/") else f"{place}/"


def _of_source(source: Mapping[str, Any], roots: LocalRoots) -> str:
    if _is_prefix(source):
        return _with_slash(_place(source["S3Uri"], roots))
    if source["CompressionType"] == "Gzip":
        return _place(source["S3Uri"], roots)
    raise ValidationException(
        f"S3DataType {source['S3DataType']} was given with CompressionType "
        f"{source['CompressionType']}; it must be S3Prefix with None, or S3Object with Gzip."
    )


def _place(location: str, roots: LocalRoots) -> str:
    if is_local(location):
        try:
            return str(roots.path_of(location))
        except ValueError as error:
            raise ValidationException(f"{error}.") from None
    if not location.startswith(SCHEME):
        raise ValidationException(
            f"{location!r} cannot be downloaded; model data must be at s3://BUCKET/KEY, or at a "
            "path below one of the local_roots under [api] in the gateway's settings."
        )
    return location


def check_may_read(identity: Identity, container: Mapping[str, Any]) -> None:
    """Raise AccessDenied if the sender may not read the model data of a container's definition."""
    for location in named_locations(container):
        identity.check(_ACTION, _resource(location))


class ModelDataLeave:
    """Checks the current permissions of models' makers to read the model data.

    Args:
        may: whether a principal (first) has permission for an action (second) on an ARN (third).
    """

    def __init__(self, may: Callable[[str, str, str], bool], arns: Arns) -> None:
        self._leave = MakersLeave(may, arns, "the model", "create the model anew")

    def refusal(self, maker: str, location: str) -> str:
        """Return why a principal may not read a location; empty if it may.

        Args:
            maker: the name of the principal; empty if unknown.
            location: ``s3://BUCKET/KEY`` or an absolute path; with a slash at its end, everything
                below it.
        """
        why = self._leave.refusal(maker, _ACTION, _resource(location))
        return why and f"Could not access model data at {location}: {why}"

    def check_endpoint(self, endpoint: Endpoint) -> None:
        """Raise ValidationException, which names both, if a maker may not read the model data."""
        for variant in endpoint.variants:
            for each in variant.containers or (variant,):
                if each.model_data is None or each.model_maker is None:
                    continue
                if why := self.refusal(each.model_maker, location_of(each.model_data)):
                    raise ValidationException(f"{why}.")


def _resource(location: str) -> str:
    return arn_of_location(location) + ("*" if location.endswith("/") else "")
