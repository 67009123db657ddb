"""How what instances have printed is named in CloudWatch Logs: groups, streams and their ARNs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from partway.gateway.arns import Arns
from partway.gateway.fleet.routing import Lease
from partway.protocol.errors import ContainerError

#: What names of log groups begin with; the endpoint's follows.
GROUPS: Final = "/aws/sagemaker/Endpoints/"


def stream_name(endpoint: str, instance: str) -> str:
    """The name of an instance's log stream: its variant's, and its id.

    Args:
        endpoint: the name of the instance's endpoint.
        instance: its id: the names of endpoint and variant, and what is its own.
    """
    variant = instance.removeprefix(f"{endpoint}-").rpartition("-")[0]
    return f"{variant}/{instance}"


def log_arn(arns: Arns, group: str = "", stream: str = "") -> str:
    """The ARN of a log stream, as policies and refusals have it.

    Args:
        arns: makes names.
        group: the name of its log group; empty where it is none in particular.
        stream: its name; empty for the group as a whole.
    """
    return arns.of(f"log-group:{group}:log-stream:{stream}", service="logs")


@contextmanager
def naming_its_log(arns: Arns, lease: Lease) -> Iterator[None]:
    """Have an error of an instance's say where its log is, if that is kept here (clause 4-3).

    Raises:
        ContainerError: as the block raised it.
    """
    try:
        yield
    except ContainerError as error:
        place = lease.place
        if place.has_log:
            stream = stream_name(place.endpoint, lease.instance.id)
            error.members["LogStreamArn"] = log_arn(arns, GROUPS + place.endpoint, stream)
        raise
