"""Names of instances' output in CloudWatch Logs: groups, streams and their ARNs."""

from __future__ import annotations

from typing import Final

from partway.gateway.arns import Arns
from partway.gateway.fleet.container_ids import container_id, hostname_of, instance_of
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.routing.router import Lease
from partway.protocol.errors import ContainerError

#: The prefix of log groups; the endpoint's name follows.
GROUPS: Final = "/aws/sagemaker/Endpoints/"

#: The log group of all transform jobs.
JOBS_GROUP: Final = "/aws/sagemaker/TransformJobs"

#: The owner of a job's instances in logs is this prefix and the job's name. No endpoint has a
#: slash.
OF_JOBS: Final = "TransformJobs/"


def group_of(owner: str) -> str:
    """Return the name of the log group of instances.

    Args:
        owner: the name of their endpoint; for a job, OF_JOBS and the job's name.
    """
    return JOBS_GROUP if owner.startswith(OF_JOBS) else GROUPS + owner


def stream_name(endpoint: str, container: str) -> str:
    """Return the name of a container's log stream: variant, instance id and host name.

    An instance's only container has no host name there.

    Args:
        endpoint: the name of the instance's endpoint. For a job, OF_JOBS and the job's name, which
            then replaces the variant's.
        container: the container's id. It contains the names of endpoint and variant.
    """
    instance, hostname = instance_of(container), hostname_of(container)
    if endpoint.startswith(OF_JOBS):
        return "/".join(filter(None, (endpoint.removeprefix(OF_JOBS), instance, hostname)))
    variant = instance.removeprefix(f"{endpoint}-").rpartition("-")[0]
    return "/".join(filter(None, (variant, instance, hostname)))


def container_of(stream: str) -> str:
    """Return the id of the container with a log stream; the stream need not exist."""
    _, _, rest = stream.partition("/")
    instance, _, hostname = rest.partition("/")
    return container_id(instance, hostname)


def log_arn(arns: Arns, group: str = "", stream: str = "") -> str:
    """Return the ARN of a log stream, as policies and refusals show it.

    An empty ``group`` names none in particular, an empty ``stream`` the whole group.
    """
    return arns.of(f"log-group:{group}:log-stream:{stream}", service="logs")


def name_its_log(
    error: ContainerError, arns: Arns, lease: Lease, place: Place | None = None
) -> None:
    """Add to an instance's error where its log is, if this gateway keeps it (clause 4-3).

    ``place`` belongs to the container at fault; it is None for the instance's only one.
    """
    place = place or lease.place
    if place.has_log:
        stream = stream_name(place.endpoint, container_id(lease.instance.id, place.hostname))
        error.members["LogStreamArn"] = log_arn(arns, GROUPS + place.endpoint, stream)
