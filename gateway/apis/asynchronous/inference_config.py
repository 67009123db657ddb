"""What an endpoint's configuration says of its asynchronous requests.

The control plane imports this alone: these requests may be switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from partway.gateway.apis.asynchronous.limits import PER_INSTANCE


@dataclass(frozen=True, slots=True)
class AsyncConfig:
    """``AsyncInferenceConfig``, as it is used.

    Attributes:
        output: where answers belong.
        failure: where it is said why there is none; empty for nowhere.
        on_success: the topic that hears of answers; empty for none.
        on_failure: the topic that hears of failures; empty for none.
        per_instance: requests that an instance has at a time.
        maker: the principal that made the configuration; empty if it is unknown.
        names_containers: whether a request must name its container, which no such request can.
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
        """What the members of an endpoint configuration say; None if nothing.

        Args:
            config: the members.
            maker: the principal that made the configuration.
            names_containers: whether requests of its endpoint must name their container.
        """
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
