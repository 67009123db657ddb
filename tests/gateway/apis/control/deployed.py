"""Members of models and configurations as the API has them, and plans of these."""

from __future__ import annotations

from typing import Any

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan


def a_model(name: str = "model", image: str = "echo", **container: Any) -> dict[str, Any]:
    return {"ModelName": name, "PrimaryContainer": {"Image": image, **container}}


def a_variant(name: str = "AllTraffic", model: str = "model", **members: Any) -> dict[str, Any]:
    return {
        "VariantName": name,
        "ModelName": model,
        "InstanceType": "ml.m5.large",
        "InitialInstanceCount": 1,
        **members,
    }


def a_config(name: str = "config", *variants: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A configuration of these variants, or of one."""
    return {
        "EndpointConfigName": name,
        "ProductionVariants": list(variants or (a_variant(),)),
        **members,
    }


def a_plan(
    config: dict[str, Any] | None = None, *models: dict[str, Any], **changes: Any
) -> DeploymentPlan:
    named = {each["ModelName"]: each for each in models or (a_model(),)}
    return DeploymentPlan(config or a_config(), named, **changes)
