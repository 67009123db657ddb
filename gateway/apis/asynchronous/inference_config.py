"""The settings for asynchronous requests in an endpoint configuration.

This module is separate because the control plane imports it even if asynchronous requests are
switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from partway.gateway.apis.asynchronous.limits import PER_INSTANCE


@dataclass(frozen=True, slots=True)
class AsyncConfig:
    """``AsyncInferenceConfig``, as the gateway uses it.

    Attributes:
        failure: the location of failure reports; empty for none.
        on_success: the ARN of the topic for answers; empty for none.
        on_failure: the ARN of the topic for failures; empty for none.
        per_instance: the number of requests that an instance has at a time.
        maker: the principal that made the configuration; empty if unknown.
        names_containers: whether requests must name their container, which asynchronous ones
            cannot.
    """

    output: str
    failure: str
    on_success: str
    on_failure: str
    per_instance: int
    maker: str = ""
    names_containers: bool = False

    @classmethod
    def of(
        cls, config: Mapping[str, Any], *, maker: str = "", names_containers: bool = False
    ) -> Self | None:
        """Return the settings in the members of an endpoint configuration; None without them."""
        members = config.get("AsyncInferenceConfig")
        if members is None:
            return None
        output = members["OutputConfig"]
        topics = output.get("NotificationConfig", {})
        client = members.get("ClientConfig", {})
        return cls(
            output["S3OutputPath"],
            output.get("S3FailurePath", ""),
            topics.get("SuccessTopic", ""),
            topics.get("ErrorTopic", ""),
            client.get("MaxConcurrentInvocationsPerInstance", PER_INSTANCE),
            maker,
            names_containers,
        )
