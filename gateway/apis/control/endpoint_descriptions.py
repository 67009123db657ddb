"""Descriptions of endpoints, in the shapes of the API's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan
from partway.gateway.apis.control.endpoint_records import CHANGING, EndpointRecord
from partway.gateway.apis.control.resources import Resource
from partway.gateway.fleet.status import EndpointState, EndpointStatus, VariantStatus

#: The configuration's name in descriptions of the settings' endpoints; there is no such resource.
OF_SETTINGS: Final = "partway-settings"

#: Characters of a reason, from botocore's shape.
_REASON: Final = 1024


def described(
    resource: Resource,
    record: EndpointRecord,
    state: tuple[EndpointState, str],
    status: EndpointStatus | None,
    arn: str,
) -> dict[str, Any]:
    """Return DescribeEndpoint's answer for an endpoint of the API.

    Args:
        status: the fleet's status; None if the fleet does not run the endpoint.
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
    """Return DescribeEndpoint's answer for an endpoint of the gateway's settings.

    Args:
        created: when the gateway created it, in epoch seconds.
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
    """Add to a DescribeEndpoint answer why starting instances are not ready.

    The reason is the ``StatusMessage`` of a variant's ``VariantStatus``, also for the variants of a
    pending deployment.

    Args:
        status: the fleet's status; None if the fleet does not run the endpoint.
        now: the time in epoch seconds.
        instead: replaces each reason; empty to show the reasons themselves.
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
