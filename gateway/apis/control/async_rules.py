"""What an endpoint configuration may say of asynchronous requests here."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.named_locations import checked_place
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import checked_arn

#: Of the output's configuration: where something is put.
_PLACES: Final = ("S3OutputPath", "S3FailurePath")
_TOPICS: Final = ("SuccessTopic", "ErrorTopic")


class AsyncRules:
    """Refuses what cannot be done, and what its caller may not have done.

    The gateway puts answers away with its own credentials, and long behind the call: so the leave
    of whoever says where they belong is asked for when that is said.

    Args:
        results: below which answers may be put on this machine.
        topics: ARNs that have a webhook.
    """

    def __init__(self, results: LocalRoots | None = None, topics: Container[str] = ()) -> None:
        self._results = results or LocalRoots(setting="local_results")
        self._topics = topics

    def allows_path(self, location: str) -> bool:
        """Whether answers may be put at a path of this machine, by what is written."""
        return self._results.allow(location)

    def check(self, members: Mapping[str, Any], identity: Identity) -> None:
        """Go on if a configuration's members can be done, for who asks.

        Args:
            members: of CreateEndpointConfig, checked by their shape.
            identity: who asks.

        Raises:
            ValidationException: something cannot be done; the message names it.
            AccessDenied: they may not write there, or publish there.
        """
        config = members.get("AsyncInferenceConfig")
        if config is None:
            return
        output = config["OutputConfig"]
        if not output.get("S3OutputPath"):
            raise ValidationException("The OutputConfig has no S3OutputPath; it must have one.")
        for name in _PLACES:
            if output.get(name):
                self.check_place(name, output[name])
                # Of all that is below it.
                folder = checked_arn(output[name].removesuffix("/"))
                identity.check("s3:PutObject", f"{folder}/*")
        for name in _TOPICS:
            topic = output.get("NotificationConfig", {}).get(name)
            if topic:
                if topic not in self._topics:
                    raise ValidationException(
                        f"The {name} {topic!r} has no webhook here; it must be one of the topics "
                        "under [api] in the gateway's settings."
                    )
                identity.check("sns:Publish", topic)

    def check_place(self, name: str, location: str) -> None:
        """Go on if answers can be put at a place.

        Args:
            name: of the member that names it.
            location: the place.

        Raises:
            ValidationException: they cannot; the message says why.
        """
        if not location.isascii() or not location.isprintable():
            raise ValidationException(f"The {name} must be of visible ASCII: clients are told it.")
        otherwise = (
            f", or a path below one of the {self._results.setting} under [api] in the gateway's "
            "settings"
        )
        place = checked_place(name, location, self._results, "written to", otherwise)
        prefix = "" if place is None else place[1]
        if any(each in ("", ".", "..") for each in prefix.rstrip("/").split("/")) and prefix:
            raise ValidationException(
                f"The {name} {location!r} cannot be written to; no part of it may be empty, . or .."
            )


def check_names_no_containers(plan: DeploymentPlan) -> None:
    """Refuse asynchronous requests where each must name its container, which these cannot.

    Raises:
        ValidationException: the plan has both.
    """
    if "AsyncInferenceConfig" in plan.config and plan.names_containers:
        raise ValidationException(
            f"The endpoint configuration {plan.config_name!r} has an AsyncInferenceConfig, and a "
            "model's InferenceExecutionConfig has the Mode Direct; it must be Serial: an "
            "asynchronous request cannot name a container."
        )
