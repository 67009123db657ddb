"""The rules for asynchronous requests in endpoint configurations."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.named_locations import checked_place
from partway.gateway.storage.places.local_roots import LocalRoots
from partway.gateway.storage.places.locations import checked_arn

#: Members of the output's configuration that name a place.
_PLACES: Final = ("S3OutputPath", "S3FailurePath")
_TOPICS: Final = ("SuccessTopic", "ErrorTopic")


class AsyncRules:
    """Refuses settings that the gateway cannot honour, or that the caller may not ask for.

    The gateway stores answers with its own credentials, long after the call. So the permission of
    the caller who names a place is checked at the call.

    Args:
        results: the folders that may hold answers on this machine.
        topics: the ARNs of topics that have a webhook.
    """

    def __init__(self, results: LocalRoots | None = None, topics: Container[str] = ()) -> None:
        self._results = results or LocalRoots(setting="local_results")
        self._topics = topics

    def allows_path(self, location: str) -> bool:
        """Whether answers may be stored at a path of this machine, by its text."""
        return self._results.allow(location)

    def check(self, members: Mapping[str, Any], identity: Identity) -> None:
        """Return if a configuration can be honoured, and the caller has the permissions for it.

        Args:
            members: the input of CreateEndpointConfig, checked by its shape.

        Raises:
            ValidationException: a member cannot be honoured; the message names it.
            AccessDenied: the caller may not write or publish there.
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
                # The permission covers everything below the place.
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
        """Return if answers can be stored at a place.

        Args:
            name: the member that names the place.

        Raises:
            ValidationException: answers cannot be stored there; the message says why.
        """
        if not location.isascii() or not location.isprintable():
            raise ValidationException(
                f"The {name} must consist of visible ASCII characters, because answers to clients "
                "contain it."
            )
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
    """Raise ValidationException for asynchronous requests that would have to name a container."""
    if "AsyncInferenceConfig" in plan.config and plan.names_containers:
        raise ValidationException(
            f"The endpoint configuration {plan.config_name!r} has an AsyncInferenceConfig, and "
            "a model's InferenceExecutionConfig has the Mode Direct; the Mode must be Serial, "
            "because an asynchronous request cannot name a container."
        )
