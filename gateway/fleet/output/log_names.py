"""How what instances have printed is named in CloudWatch Logs: groups, streams and their ARNs."""

from __future__ import annotations

from typing import Final

from partway.gateway.arns import Arns
from partway.gateway.fleet.container_ids import container_id, hostname_of, instance_of
from partway.gateway.fleet.endpoint import Place
from partway.gateway.fleet.routing.router import Lease
from partway.protocol.errors import ContainerError

#: What names of log groups begin with; the endpoint's follows.
GROUPS: Final = "/aws/sagemaker/Endpoints/"

#: The log group of all transform jobs.
JOBS_GROUP: Final = "/aws/sagemaker/TransformJobs"

#: What logs call the owner of a job's instances: this, and the job's name. No endpoint has a slash.
OF_JOBS: Final = "TransformJobs/"


def group_of(owner: str) -> str:
    """The name of the log group of instances.

    Args:
        owner: the name of their endpoint; of a job's, that behind OF_JOBS.
    """
    return JOBS_GROUP if owner.startswith(OF_JOBS) else GROUPS + owner


def stream_name(endpoint: str, container: str) -> str:
    """The name of a container's log stream: its variant's, its instance's id, its host name.

    An instance's only container has no host name there.

    Args:
        endpoint: the name of the instance's endpoint; of a job's, the job's behind OF_JOBS, which
            is in the place of the variant's.
        container: the container's id, which is the instance's where that has only one. Of that are
            a part the names of endpoint and variant.
    """
    instance, hostname = instance_of(container), hostname_of(container)
    if endpoint.startswith(OF_JOBS):
        return "/".join(filter(None, (endpoint.removeprefix(OF_JOBS), instance, hostname)))
    variant = instance.removeprefix(f"{endpoint}-").rpartition("-")[0]
    return "/".join(filter(None, (variant, instance, hostname)))


def container_of(stream: str) -> str:
    """The id of the container whose log stream has a name; whether there is one is not known."""
    _, _, rest = stream.partition("/")
    instance, _, hostname = rest.partition("/")
    return container_id(instance, hostname)


def log_arn(arns: Arns, group: str = "", stream: str = "") -> str:
    """The ARN of a log stream, as policies and refusals have it.

    Args:
        arns: makes names.
        group: the name of its log group; empty where it is none in particular.
        stream: its name; empty for the group as a whole.
    """
    return arns.of(f"log-group:{group}:log-stream:{stream}", service="logs")


def name_its_log(
    error: ContainerError, arns: Arns, lease: Lease, place: Place | None = None
) -> None:
    """Have an error of an instance's say where its log is, if that is kept here (clause 4-3).

    Args:
        error: what is said of the instance.
        arns: makes names.
        lease: the place on the instance.
        place: of the container that is at fault; None for the instance's only one.
    """
    place = place or lease.place
    if place.has_log:
        stream = stream_name(place.endpoint, container_id(lease.instance.id, place.hostname))
        error.members["LogStreamArn"] = log_arn(arns, GROUPS + place.endpoint, stream)
