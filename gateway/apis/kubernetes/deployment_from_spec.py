"""Conversion of objects' specs to models and configurations of the API."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from partway.gateway.apis.control.endpoint_plans import DeploymentPlan, Members
from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of, shares_of

_ARCHIVE: Final = ".tar.gz"


def model_members(name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of CreateModel for a DeployedModel.

    Args:
        spec: the spec of the object, checked.
    """
    model = spec["modelSpec"]
    container = model["modelContainerSpec"]
    members: dict[str, Any] = {"Image": container["imageURI"]}
    if place := model.get("artifactLocation"):
        members |= _model_data(place)
    if variables := container.get("env"):
        members["Environment"] = {each["name"]: each.get("value", "") for each in variables}
    return {"ModelName": name, "PrimaryContainer": members}


def _model_data(place: str) -> dict[str, Any]:
    if place.endswith(_ARCHIVE):
        return {"ModelDataUrl": place}
    source = {"S3Uri": place, "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"ModelDataSource": {"S3DataSource": source}}


@dataclass(frozen=True, slots=True)
class WantedEndpoint:
    """The wanted state of an endpoint.

    Attributes:
        models: the inputs of CreateModel for its DeployedModels, by their names.
        shares: the shares of the traffic in percent, by the same names.
        missing: the names of destinations that do not exist.
        makers: the principals that made the DeployedModels, by the same names.
    """

    name: str
    models: Mapping[str, Members] = field(repr=False)
    shares: Mapping[str, int]
    missing: tuple[str, ...] = ()
    makers: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_traffic(self) -> bool:
        """Whether any model gets traffic; otherwise there is nothing to run."""
        return any(self.shares.values())

    @property
    def config(self) -> Members:
        return {
            "EndpointConfigName": self.name,
            "ProductionVariants": [
                {
                    "VariantName": model,
                    "ModelName": model,
                    "InitialInstanceCount": 1,
                    "InitialVariantWeight": float(share),
                }
                for model, share in self.shares.items()
            ],
        }

    def has_models_of(self, plan: DeploymentPlan) -> bool:
        """Whether a plan has the same models, whatever the weights and numbers."""
        return dict(plan.models) == dict(self.models)

    def has_shares_of(self, plan: DeploymentPlan) -> bool:
        weights = {each["VariantName"]: plan.weight_of(each) for each in plan.variants}
        return weights == dict(self.shares)


def wanted_endpoint(endpoint: CustomObject, models: Iterable[CustomObject]) -> WantedEndpoint:
    """Return the wanted state of an Endpoint with its DeployedModels.

    A model without traffic runs too if its ``endpointPath`` names the Endpoint, so that it is up
    before it gets traffic. A model with another ``endpointPath`` does not belong to the Endpoint.

    Args:
        models: DeployedModels, including all whose path names the Endpoint.
    """
    name = endpoint_of(endpoint)
    own = {
        each.name: each
        for each in models
        if each.namespace == endpoint.namespace and endpoint_of(each) == name and not each.deleting
    }
    asked = shares_of(endpoint.spec)
    shares = {model: share for model, share in asked.items() if model in own}
    shares |= {model: 0 for model in sorted(own) if model not in shares}
    return WantedEndpoint(
        name,
        {model: model_members(model, own[model].spec) for model in shares},
        shares,
        tuple(model for model in asked if model not in own),
        {model: own[model].maker for model in shares},
    )
