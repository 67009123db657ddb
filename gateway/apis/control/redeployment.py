"""What an endpoint keeps when the operator deploys it again, and what of it goes."""

from __future__ import annotations

from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, Members
from partway.gateway.fleet.endpoint import DEFAULT_VARIANT

#: Of a variant: what is kept, made anew, or of no effect where there is one variant alone.
_OF_VARIANT: Final = frozenset(
    {"InitialInstanceCount", "InitialVariantWeight", "InstanceType", "ModelName", "VariantName"}
)

#: Of a configuration: what is made anew.
_OF_CONFIG: Final = frozenset({"EndpointConfigName", "ProductionVariants"})


def kept_of_variant(before: DeploymentPlan | None) -> dict[str, Any]:
    """What the one variant has from before: number and type of its instances.

    Args:
        before: what the endpoint was made of; None if there is none.
    """
    variant = None if before is None else _taken_over(before)
    if before is None or variant is None:
        return {}
    kept: dict[str, Any] = {"InitialInstanceCount": before.instances_of(variant)}
    if "InstanceType" in variant:
        kept["InstanceType"] = variant["InstanceType"]
    return kept


def gone_with(before: DeploymentPlan | None) -> list[str]:
    """What of a configuration no deployment of the operator's has, in words.

    Args:
        before: what the endpoint was made of; None if there is none.
    """
    if before is None:
        return []
    variant = _taken_over(before)
    gone = [*(each for each in before.config if each not in _OF_CONFIG)]
    if variant is not None:
        gone += [each for each in variant if each not in _OF_VARIANT]
        if len(before.containers_of(variant)) > 1:
            gone.append("Containers")
    gone += [f"variant {each['VariantName']}" for each in before.variants if each is not variant]
    return gone


def _taken_over(before: DeploymentPlan) -> Members | None:
    """The variant in whose place the new one is: that of its name, or the only one."""
    variants = before.variants
    of_its_name = [each for each in variants if each["VariantName"] == DEFAULT_VARIANT]
    found = of_its_name or (variants if len(variants) == 1 else ())
    return found[0] if found else None
