"""What is said of endpoints, in the shapes of the API's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.endpoint_records import CHANGING, EndpointRecord
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.status import EndpointState, EndpointStatus, VariantStatus

#: The configuration that endpoints of the gateway's settings are said to have; there is none.
OF_SETTINGS: Final = "partway-settings"

#: Characters of a reason, as botocore's shape has it.
_REASON: Final = 1024


def described(
    resource: Resource,
    record: EndpointRecord,
    state: tuple[EndpointState, str],
    status: EndpointStatus | None,
    arn: str,
) -> dict[str, Any]:
    """What DescribeEndpoint answers of an endpoint of the API.

    Args:
        resource: the endpoint.
        record: how far it has come.
        state: how it is, and why.
        status: the fleet's; None if the fleet has nothing of it.
        arn: its ARN.
    """
    plan = record.plan
    serving = {} if status is None else {each.name: each for each in status.variants}
    answer = {
        "EndpointName": resource.name,
        "EndpointArn": arn,
        "EndpointConfigName": plan.config_name,
        "ProductionVariants": _variants(plan, serving, resource.modified),
        **_of_state(state),
        "CreationTime": resource.created,
        "LastModifiedTime": resource.modified,
    }
    if "AsyncInferenceConfig" in plan.config:
        answer["AsyncInferenceConfig"] = plan.config["AsyncInferenceConfig"]
    deployment = (record.coming or plan).deployment
    if deployment:
        answer["LastDeploymentConfig"] = deployment
    if record.coming is not None and record.state in CHANGING:
        answer["PendingDeploymentSummary"] = {
            "EndpointConfigName": record.coming.config_name,
            "ProductionVariants": _variants(record.coming, {}, record.began),
            "StartTime": record.began,
        }
    return answer


def described_of_settings(status: EndpointStatus, arn: str, created: float) -> dict[str, Any]:
    """What DescribeEndpoint answers of an endpoint of the gateway's settings.

    Args:
        status: the fleet's.
        arn: its ARN.
        created: when the gateway began with it, in epoch seconds.
    """
    return {
        "EndpointName": status.name,
        "EndpointArn": arn,
        "EndpointConfigName": OF_SETTINGS,
        "ProductionVariants": [
            {
                "VariantName": each.name,
                "CurrentWeight": each.weight,
                "DesiredWeight": each.weight,
                "CurrentInstanceCount": each.serving,
                "DesiredInstanceCount": each.desired,
            }
            for each in status.variants
        ],
        **_of_state((status.state, status.reason)),
        "CreationTime": created,
        "LastModifiedTime": max(created, status.since),
    }


def with_slow_starts(
    answer: Mapping[str, Any], status: EndpointStatus | None, now: float, instead: str = ""
) -> dict[str, Any]:
    """Add to an answer of DescribeEndpoint why instances that start are not ready.

    The reason is the ``StatusMessage`` of a variant's ``VariantStatus``, also of the variants of a
    pending deployment.

    Args:
        answer: without them.
        status: the fleet's; None if the fleet does not have the endpoint.
        now: epoch seconds.
        instead: replaces each reason; empty for the reasons themselves.
    """
    reasons = {
        each.name: instead or reason
        for each in (() if status is None else status.variants)
        if (reason := each.slow_start_reason(now))
    }

    def told(variants: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        return [{**each, **_status_of(reasons.get(each["VariantName"], ""))} for each in variants]

    pending = answer.get("PendingDeploymentSummary")
    if pending is None:
        return {**answer, "ProductionVariants": told(answer["ProductionVariants"])}
    summary = {**pending, "ProductionVariants": told(pending["ProductionVariants"])}
    return {**answer, "PendingDeploymentSummary": summary}


def _status_of(reason: str) -> Mapping[str, Any]:
    if not reason:
        return {}
    return {"VariantStatus": [{"Status": "Creating", "StatusMessage": reason[:_REASON]}]}


def _of_state(state: tuple[EndpointState, str]) -> dict[str, str]:
    answer = {"EndpointStatus": state[0].service_word}
    if state[1]:
        answer["FailureReason"] = state[1][:_REASON]
    return answer


def _variants(
    plan: DeploymentPlan, serving: Mapping[str, VariantStatus], since: float
) -> list[Any]:
    """The variants of a plan, with how many instances of each serve."""
    summaries = []
    for variant in plan.variants:
        name, weight = variant["VariantName"], plan.weight_of(variant)
        found = serving.get(name)
        images = [each["Image"] for each in plan.containers_of(variant)]
        summaries.append(
            {
                "VariantName": name,
                "DeployedImages": [
                    {"SpecifiedImage": image, "ResolutionTime": since} for image in images
                ],
                "CurrentWeight": weight if found is None else found.weight,
                "DesiredWeight": weight,
                "CurrentInstanceCount": 0 if found is None else found.serving,
                "DesiredInstanceCount": plan.instances_of(variant)
                if found is None
                else found.desired,
            }
        )
    return summaries
