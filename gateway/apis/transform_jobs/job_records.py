"""The record of a transform job: its model and its status."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, Members
from partway.gateway.apis.control.resources import Resource
from partway.gateway.batch.options import EVERYTHING, TransformOptions
from partway.gateway.plain_text import cut

#: The name of a job's one variant, in logs.
VARIANT: Final = "transform"

#: Characters of a reason (``FailureReason`` of AWS's service model).
_MAX_REASON: Final = 1024


class JobStatus(StrEnum):
    """The status of a job, in SageMaker's words of ``TransformJobStatus``."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    STOPPING = "Stopping"
    STOPPED = "Stopped"


#: The statuses of jobs that have not ended.
UNDER_WAY: Final = frozenset({JobStatus.IN_PROGRESS, JobStatus.STOPPING})


@dataclass(frozen=True, slots=True)
class TransformRecord:
    """The recorded state of a job.

    Attributes:
        sender: the principal that made the job; empty without authentication.
        model: the members of its model, as a copy, since the model may be deleted meanwhile.
        of_operator: the operator's notes on the model; empty if a caller has made the model.
        model_maker: the principal that made the model; empty if unknown.
        started: when its instances began to start, in epoch seconds; None while the job waits.
        ended: when it ended, in epoch seconds; None before.
        reason: why it failed; empty otherwise.
    """

    status: JobStatus
    sender: str
    model: Members = field(repr=False)
    of_operator: Members = field(default_factory=dict, repr=False)
    model_maker: str = ""
    started: float | None = None
    ended: float | None = None
    reason: str = ""

    @classmethod
    def of(cls, resource: Resource) -> TransformRecord:
        kept = resource.kept
        return cls(**{**kept, "status": JobStatus(kept["status"])})

    def over(self, status: JobStatus, now: float, reason: str = "") -> TransformRecord:
        reason = cut(reason, _MAX_REASON)
        return dataclasses.replace(self, status=status, ended=now, reason=reason)

    def in_place_of(self, resource: Resource, now: float) -> Resource:
        """Return the resource with this record.

        Args:
            resource: the job before the change.
            now: the time of the change, in epoch seconds.
        """
        kept = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        kept["status"] = str(self.status)
        return dataclasses.replace(resource, modified=now, kept=kept)


def plan_of(members: Members, record: TransformRecord) -> DeploymentPlan:
    """Return the plan of a job's instances, in the form of an endpoint's plan.

    Args:
        members: the input of CreateTransformJob.
    """
    resources, name = members["TransformResources"], members["ModelName"]
    variant = {
        "VariantName": VARIANT,
        "ModelName": name,
        "InitialInstanceCount": resources["InstanceCount"],
        "InstanceType": resources["InstanceType"],
    }
    config = {"EndpointConfigName": name, "ProductionVariants": [variant]}
    model = _with_environment(record.model, members.get("Environment", {}))
    of_operator = {name: record.of_operator} if record.of_operator else {}
    makers = {name: record.model_maker}
    return DeploymentPlan(config, {name: model}, of_operator=of_operator, makers=makers)


def _with_environment(model: Members, environment: Mapping[str, str]) -> Members:
    """Add variables to a model's containers; they take precedence over the containers' own."""

    def container(one: Members) -> Members:
        return {**one, "Environment": {**one.get("Environment", {}), **environment}}

    changed = dict(model)
    if "PrimaryContainer" in model:
        changed["PrimaryContainer"] = container(model["PrimaryContainer"])
    if "Containers" in model:
        changed["Containers"] = [container(each) for each in model["Containers"]]
    return changed


def options_of(members: Members) -> TransformOptions:
    """Return the options of a job, without its model and its locations.

    Args:
        members: the input of CreateTransformJob.

    Raises:
        OptionsError: values conflict.
    """
    given, put = members["TransformInput"], members["TransformOutput"]
    processing = members.get("DataProcessing", {})
    asked: dict[str, Any] = {
        "content_type": given.get("ContentType"),
        "accept": put.get("Accept"),
        "split_type": given.get("SplitType"),
        "assemble_with": put.get("AssembleWith"),
        "compression_type": given.get("CompressionType"),
        "batch_strategy": members.get("BatchStrategy"),
        "max_payload_mb": members.get("MaxPayloadInMB"),
        "max_concurrent": members.get("MaxConcurrentTransforms"),
        "input_filter": processing.get("InputFilter") or EVERYTHING,
        "output_filter": processing.get("OutputFilter") or EVERYTHING,
        "join_source": processing.get("JoinSource"),
        **_client_config(members.get("ModelClientConfig", {})),
    }
    return TransformOptions(**{name: value for name, value in asked.items() if value is not None})


def _client_config(config: Members) -> dict[str, Any]:
    return {
        "invocation_timeout": config.get("InvocationsTimeoutInSeconds"),
        "max_retries": config.get("InvocationsMaxRetries"),
    }


def described(resource: Resource, record: TransformRecord, arn: str) -> dict[str, Any]:
    """Return DescribeTransformJob's answer: the job's input, with AWS's defaults."""
    members = {name: value for name, value in resource.members.items() if value is not None}
    answer = {
        **members,
        "TransformInput": {
            "CompressionType": "None",
            "SplitType": "None",
            **members["TransformInput"],
        },
        "TransformOutput": {"AssembleWith": "None", "KmsKeyId": "", **members["TransformOutput"]},
        "DataProcessing": {
            "InputFilter": EVERYTHING,
            "OutputFilter": EVERYTHING,
            "JoinSource": "None",
            **members.get("DataProcessing", {}),
        },
        "TransformJobArn": arn,
        "TransformJobStatus": str(record.status),
        "CreationTime": resource.created,
    }
    times = {"TransformStartTime": record.started, "TransformEndTime": record.ended}
    answer |= {name: time for name, time in times.items() if time is not None}
    return answer | ({"FailureReason": record.reason} if record.reason else {})


def summary_of(resource: Resource, record: TransformRecord, arn: str) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "TransformJobName": resource.name,
        "TransformJobArn": arn,
        "CreationTime": resource.created,
        "LastModifiedTime": resource.modified,
        "TransformJobStatus": str(record.status),
    }
    if record.ended is not None:
        summary["TransformEndTime"] = record.ended
    return summary | ({"FailureReason": record.reason} if record.reason else {})
