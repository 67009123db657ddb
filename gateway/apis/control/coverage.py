"""Coverage of the operations' inputs: the reference's table of members, as data.

A member that is not in the table comes from a newer botocore. It is refused like a member that the
table refuses: no request is ignored silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.handling import Handling


@dataclass(frozen=True, slots=True)
class Covered:
    """The handling of one member, and of all members below it that have no row of their own.

    Attributes:
        why: why the member has no effect or is refused, and the remedy.
        accepts: whether a value that fits the member's shape is accepted. A refused member accepts
            the values that ask for nothing.
        accepted: the accepted values in words; empty if all values or no values are accepted.
    """

    handling: Handling
    why: str = ""
    accepts: Callable[[Any], bool] = lambda _: True
    accepted: str = ""

    @property
    def reason(self) -> str:
        return "; ".join(filter(None, (self.why, self.accepted and f"accepted: {self.accepted}")))


_DONE: Final = Covered(Handling.DONE)


def _no_effect(why: str) -> Covered:
    return Covered(Handling.NO_EFFECT, why)


def _done_for(why: str, *values: Any) -> Covered:
    """Return a row for a member that honours some values and refuses all others."""
    return Covered(Handling.DONE, why, lambda value: value in values, _in_words(values))


def _refused(why: str, *nothing: Any) -> Covered:
    """Return a row for a refused member, which accepts the values that ask for nothing."""
    return Covered(Handling.REFUSED, why, lambda value: value in nothing, _in_words(nothing))


def _refused_unless(why: str, asks_nothing: Callable[[Any], bool], words: str) -> Covered:
    """Return a row for a refused member, with a rule for the values that ask for nothing."""
    return Covered(Handling.REFUSED, why, asks_nothing, words)


def _in_words(values: Iterable[Any]) -> str:
    shown = (each if isinstance(each, str) and each else json.dumps(each) for each in values)
    return ", ".join(f"`{each}`" for each in shown)


def _below(prefix: str, rows: Mapping[str, Covered]) -> dict[str, Covered]:
    return {prefix: _DONE, **{f"{prefix}.{name}": row for name, row in rows.items()}}


_ROLE: Final = _no_effect("the gateway assumes no role, and asks AWS for no permission")
_VPC: Final = _no_effect(
    "containers run on this machine, which has no AWS subnets and security groups"
)
_KEY: Final = _no_effect("the gateway encrypts nothing; encrypt its disk")
_ISOLATION: Final = _refused("containers are not cut off from the network", False)

_CONTAINER: Final[Mapping[str, Covered]] = {
    "ContainerHostname": _DONE,
    "Image": _DONE,
    "ImageConfig": _no_effect("the container engine pulls images with its own credentials"),
    "Mode": _done_for("the gateway runs one model in a container", "SingleModel"),
    "ModelDataUrl": _DONE,
    **_below(
        "ModelDataSource",
        _below(
            "S3DataSource",
            {
                "S3Uri": _DONE,
                "S3DataType": _DONE,
                "CompressionType": _DONE,
                "ModelAccessConfig": _no_effect("the gateway checks no licence"),
                "HubAccessConfig": _refused(
                    "there are no model hubs; give the S3Uri of a copy", {"HubContentArn": ""}
                ),
                "ManifestS3Uri": _refused(
                    "the gateway reads no manifests; give an S3Uri of a prefix"
                ),
                "ETag": _refused(
                    "the gateway does not compare the object with an ETag; leave it out", ""
                ),
                "ManifestEtag": _refused("the gateway reads no manifests", ""),
            },
        ),
    ),
    "AdditionalModelDataSources": _refused("a container has one source of model data"),
    "Environment": _DONE,
    "ModelPackageName": _refused("there are no model packages; give Image and ModelDataUrl"),
    "InferenceSpecificationName": _refused(
        "it belongs to model packages, which the gateway does not have"
    ),
    "MultiModelConfig": _refused(
        "the gateway runs one model in a container", {}, {"ModelCacheSetting": "Disabled"}
    ),
    "ContainerMetricsConfig": _refused(
        "the gateway does not read a container's metrics; scrape the container",
        {},
        {"MetricsEndpoints": []},
    ),
}

_SCALING: Final = _refused_unless(
    "it is for inference components, which the gateway does not run",
    lambda value: not value or value.get("Status") == "DISABLED",
    "`{}`, and any value with the Status `DISABLED`",
)

_VARIANT: Final[Mapping[str, Covered]] = {
    "VariantName": _DONE,
    "ModelName": _DONE,
    "InitialInstanceCount": _DONE,
    "InitialVariantWeight": _DONE,
    "InstanceType": Covered(
        Handling.DONE,
        "ml.g* and ml.p* give an instance a GPU if the machine has one; other types have no effect",
    ),
    "InstancePools": _refused("a variant has one kind of instance; give InstanceType"),
    "VariantInstanceProvisionTimeoutInSeconds": _no_effect("the gateway provisions no machines"),
    "AcceleratorType": _no_effect("there are no AWS accelerators"),
    "CoreDumpConfig": _refused("core dumps are not collected"),
    "ServerlessConfig": _refused("there are no serverless variants; give InitialInstanceCount"),
    "VolumeSizeInGB": _no_effect("model data is on the gateway's disk; set model_data_quota"),
    "ModelDataDownloadTimeoutInSeconds": _DONE,
    "ContainerStartupHealthCheckTimeoutInSeconds": _DONE,
    "EnableSSMAccess": _refused("there is no Systems Manager", False),
    "ManagedInstanceScaling": _SCALING,
    **_below(
        "RoutingConfig",
        {
            "RoutingStrategy": _done_for(
                "the instance with the fewest outstanding requests gets the next, for RANDOM too",
                "LEAST_OUTSTANDING_REQUESTS",
                "RANDOM",
            ),
            "PrefixAwareRoutingConfig": _refused("requests are not routed by their prefixes", {}),
        },
    ),
    "InferenceAmiVersion": _no_effect("instances are processes and containers of this machine"),
    "CapacityReservationConfig": _no_effect(
        "instances run on this machine, whose capacity cannot be reserved"
    ),
    "AcceleratorPartitionLayouts": _refused_unless(
        "GPUs are not partitioned",
        lambda value: not any(each.get("AcceleratorPartitionTypes") for each in value),
        "layouts without AcceleratorPartitionTypes",
    ),
}

_DEPLOYMENT: Final[Mapping[str, Covered]] = {
    **_below(
        "BlueGreenUpdatePolicy",
        {
            **_below(
                "TrafficRoutingConfiguration",
                {
                    "Type": _done_for("all traffic moves at once", "ALL_AT_ONCE"),
                    "WaitIntervalInSeconds": _no_effect("the gateway waits for no alarms"),
                    "CanarySize": _refused("all traffic moves at once"),
                    "LinearStepSize": _refused("all traffic moves at once"),
                },
            ),
            "TerminationWaitInSeconds": _no_effect(
                "old instances stop when their open streams and requests have ended"
            ),
            "MaximumExecutionTimeoutInSeconds": _no_effect(
                "ContainerStartupHealthCheckTimeoutInSeconds limits the start of an instance"
            ),
        },
    ),
    "RollingUpdatePolicy": _refused("every update is blue/green; give BlueGreenUpdatePolicy"),
    "AutoRollbackConfiguration": _refused(
        "there are no alarms; the gateway rolls back an update whose instances do not start", {}
    ),
}

_ASYNC_OUTPUT: Final[Mapping[str, Covered]] = {
    "S3OutputPath": Covered(Handling.DONE, "required; at s3://, or below local_results"),
    "S3FailurePath": _DONE,
    "KmsKeyId": _KEY,
    **_below(
        "NotificationConfig",
        {
            "SuccessTopic": Covered(Handling.DONE, "a topic that has a webhook under [api.topics]"),
            "ErrorTopic": Covered(Handling.DONE, "a topic that has a webhook under [api.topics]"),
            "IncludeInferenceResponseIn": _refused(
                "a notice names the location of the answer, and does not contain the answer"
            ),
        },
    ),
}

_TRANSFORM_INPUT: Final[Mapping[str, Covered]] = {
    **_below(
        "DataSource",
        _below(
            "S3DataSource",
            {
                "S3DataType": Covered(
                    Handling.DONE, "S3Prefix or ManifestFile; the gateway refuses other values"
                ),
                "S3Uri": Covered(Handling.DONE, "at s3://, or below local_roots"),
            },
        ),
    ),
    "ContentType": _DONE,
    "CompressionType": _DONE,
    "SplitType": _DONE,
}

_TRANSFORM_OUTPUT: Final[Mapping[str, Covered]] = {
    "S3OutputPath": Covered(Handling.DONE, "at s3://, or below local_results"),
    "Accept": _DONE,
    "AssembleWith": _DONE,
    "KmsKeyId": _KEY,
}

_TRANSFORM_RESOURCES: Final[Mapping[str, Covered]] = {
    "InstanceType": Covered(
        Handling.DONE,
        "ml.g* and ml.p* give an instance a GPU if the machine has one; other types have no effect",
    ),
    "InstanceCount": _DONE,
    "VolumeKmsKeyId": _KEY,
    "TransformAmiVersion": _no_effect("instances are processes and containers of this machine"),
}

_LIST: Final = dict.fromkeys(
    (
        "NameContains", "SortBy", "SortOrder", "MaxResults", "NextToken", "CreationTimeBefore",
        "CreationTimeAfter",
    ),
    _DONE,
)  # fmt: skip

#: Rows by operation and member. A member's path has a full stop for each level; lists add no level.
COVERAGE: Final[Mapping[str, Mapping[str, Covered]]] = {
    "CreateModel": {
        "ModelName": _DONE,
        **_below("PrimaryContainer", _CONTAINER),
        **_below("Containers", _CONTAINER),
        "Containers": Covered(Handling.DONE, "each instance runs all of these containers"),
        **_below("InferenceExecutionConfig", {"Mode": _DONE}),
        "ExecutionRoleArn": _ROLE,
        "Tags": _DONE,
        "VpcConfig": _VPC,
        "EnableNetworkIsolation": _ISOLATION,
    },
    "DescribeModel": {"ModelName": _DONE},
    "ListModels": _LIST,
    "DeleteModel": {"ModelName": _DONE},
    "CreateEndpointConfig": {
        "EndpointConfigName": _DONE,
        **_below("ProductionVariants", _VARIANT),
        "DataCaptureConfig": _refused_unless(
            "requests are not captured",
            lambda value: (
                value.get("EnableCapture") is False or value.get("InitialSamplingPercentage") == 0
            ),
            "any value with EnableCapture `false` or InitialSamplingPercentage `0`",
        ),
        "Tags": _DONE,
        "KmsKeyId": _KEY,
        **_below(
            "AsyncInferenceConfig",
            {
                **_below("ClientConfig", {"MaxConcurrentInvocationsPerInstance": _DONE}),
                **_below("OutputConfig", _ASYNC_OUTPUT),
            },
        ),
        "ExplainerConfig": _refused("predictions are not explained", {}),
        "ShadowProductionVariants": _refused("traffic is not copied to a shadow"),
        "ExecutionRoleArn": _ROLE,
        "VpcConfig": _VPC,
        "EnableNetworkIsolation": _ISOLATION,
        "MetricsConfig": _no_effect("the gateway's metrics are at /metrics, for Prometheus"),
        "CrossRegionTrafficConfig": _refused("there is one region"),
    },
    "DescribeEndpointConfig": {"EndpointConfigName": _DONE},
    "ListEndpointConfigs": _LIST,
    "DeleteEndpointConfig": {"EndpointConfigName": _DONE},
    "CreateEndpoint": {
        "EndpointName": _DONE,
        "EndpointConfigName": _DONE,
        **_below("DeploymentConfig", _DEPLOYMENT),
        "Tags": _DONE,
    },
    "DescribeEndpoint": {"EndpointName": _DONE},
    "ListEndpoints": {
        **_LIST,
        "LastModifiedTimeBefore": _DONE,
        "LastModifiedTimeAfter": _DONE,
        "StatusEquals": _DONE,
    },
    "UpdateEndpoint": {
        "EndpointName": _DONE,
        "EndpointConfigName": _DONE,
        "RetainAllVariantProperties": _DONE,
        "ExcludeRetainedVariantProperties": _DONE,
        **_below("DeploymentConfig", _DEPLOYMENT),
        "RetainDeploymentConfig": _no_effect("every update is blue/green, all at once"),
    },
    "UpdateEndpointWeightsAndCapacities": {
        "EndpointName": _DONE,
        **_below(
            "DesiredWeightsAndCapacities",
            {
                "VariantName": _DONE,
                "DesiredWeight": _DONE,
                "DesiredInstanceCount": _DONE,
                "ServerlessUpdateConfig": _refused("there are no serverless variants", {}),
            },
        ),
    },
    "DeleteEndpoint": {"EndpointName": _DONE},
    "CreateTransformJob": {
        "TransformJobName": _DONE,
        "ModelName": _DONE,
        "MaxConcurrentTransforms": _DONE,
        **_below(
            "ModelClientConfig",
            {"InvocationsTimeoutInSeconds": _DONE, "InvocationsMaxRetries": _DONE},
        ),
        "MaxPayloadInMB": _DONE,
        "BatchStrategy": _DONE,
        "Environment": _DONE,
        **_below("TransformInput", _TRANSFORM_INPUT),
        **_below("TransformOutput", _TRANSFORM_OUTPUT),
        "DataCaptureConfig": _refused("requests are not captured"),
        **_below("TransformResources", _TRANSFORM_RESOURCES),
        **_below(
            "DataProcessing", {"InputFilter": _DONE, "OutputFilter": _DONE, "JoinSource": _DONE}
        ),
        "Tags": _DONE,
        "ExperimentConfig": _no_effect(
            "there are no experiments; DescribeTransformJob shows the given value"
        ),
    },
    "DescribeTransformJob": {"TransformJobName": _DONE},
    "ListTransformJobs": {
        **_LIST,
        "LastModifiedTimeBefore": _DONE,
        "LastModifiedTimeAfter": _DONE,
        "StatusEquals": _DONE,
    },
    "StopTransformJob": {"TransformJobName": _DONE},
    "AddTags": {"ResourceArn": _DONE, "Tags": _DONE},
    "ListTags": {"ResourceArn": _DONE, "NextToken": _DONE, "MaxResults": _DONE},
    "DeleteTags": {"ResourceArn": _DONE, "TagKeys": _DONE},
}


def check_covered(operation: str, members: Mapping[str, Any]) -> None:
    """Refuse members that the gateway cannot honour.

    Args:
        members: the input, checked by its shape.

    Raises:
        ValidationException: the message names every such member, with the reason.
    """
    refused = list(_refusals(COVERAGE[operation], members, ""))
    if refused:
        raise ValidationException(f"Not supported by this gateway: {'; '.join(refused)}.")


def _refusals(rows: Mapping[str, Covered], members: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in members.items():
        place = f"{path}.{name}" if path else name
        row = rows.get(place)
        if row is None:
            yield f"{place} (this version of the gateway does not know it)"
        elif value == []:
            continue  # an empty list asks for nothing; shapes refuse lists that must not be empty
        elif not row.accepts(value):
            yield f"{place} ({row.reason})"
        elif row.handling is not Handling.REFUSED and any(
            other.startswith(f"{place}.") for other in rows
        ):
            for each in value if isinstance(value, list) else [value]:
                yield from _refusals(rows, each, place)
