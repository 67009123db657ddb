"""Leave to read model data: asked of the principal that made the model, whoever deploys it.

The gateway reads model data with its own credentials, which may read more than a caller may. So it
asks for ``s3:GetObject`` of the model's maker: when the model is created, when it is deployed, and
before each download. Models of the gateway's operator are read unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.access.creator_permission import MakersLeave
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.model_data_locations import named_locations
from partway.gateway.arns import Arns
from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.storage.model_data.sources import location_of
from partway.gateway.storage.places.locations import arn_of_location

_ACTION: Final = "s3:GetObject"


def check_may_read(identity: Identity, container: Mapping[str, Any]) -> None:
    """Refuse a container's definition whose model data its sender may not read.

    Raises:
        AccessDenied: they may not.
    """
    for location in named_locations(container):
        identity.check(_ACTION, _resource(location))


class ModelDataLeave:
    """Says whether the makers of models may read the model data at this moment.

    Args:
        may: whether a principal may do something: its name, an action, an ARN.
        arns: makes the principals' names.
    """

    def __init__(self, may: Callable[[str, str, str], bool], arns: Arns) -> None:
        self._leave = MakersLeave(may, arns, "the model", "create the model anew")

    def refusal(self, maker: str, location: str) -> str:
        """Why a principal may not read a location; empty if it may.

        Args:
            maker: the principal's name; empty if it is unknown.
            location: ``s3://BUCKET/KEY`` or an absolute path, with a slash at its end for all that
                is below it.
        """
        why = self._leave.refusal(maker, _ACTION, _resource(location))
        return why and f"Could not access model data at {location}: {why}"

    def check_endpoint(self, endpoint: Endpoint) -> None:
        """Refuse to deploy what the makers of its models may not read.

        Raises:
            ValidationException: the message says who lacks leave for what.
        """
        for variant in endpoint.variants:
            for each in variant.containers or (variant,):
                if each.model_data is None or each.model_maker is None:
                    continue
                if why := self.refusal(each.model_maker, location_of(each.model_data)):
                    raise ValidationException(f"{why}.")


def _resource(location: str) -> str:
    """The ARN of the object or folder at a location."""
    return arn_of_location(location) + ("*" if location.endswith("/") else "")
