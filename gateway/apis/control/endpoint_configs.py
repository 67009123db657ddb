"""The operations on endpoint configurations: CreateEndpointConfig and its neighbours (clause 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partway.gateway.access.authentication import Identity
from partway.gateway.apis.control.async_rules import AsyncRules
from partway.gateway.apis.control.catalogue import Catalogue
from partway.gateway.apis.control.definitions import DefinitionOperations
from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.apis.control.resources import kept_of_maker


class EndpointConfigOperations(DefinitionOperations):
    """The operations on endpoint configurations; a configuration's models must exist."""

    kind = "endpoint-config"
    noun = "EndpointConfig"

    def __init__(self, catalogue: Catalogue, async_rules: AsyncRules) -> None:
        super().__init__(catalogue)
        self._async_rules = async_rules

    def _defined(self, members: Mapping[str, Any], identity: Identity) -> Mapping[str, Any]:
        self._async_rules.check(members, identity)
        variants = [self._variant(each, identity) for each in members["ProductionVariants"]]
        names = [each["VariantName"].lower() for each in variants]
        if len(set(names)) < len(names):
            raise ValidationException(
                "Each of the ProductionVariants must have its own VariantName."
            )
        return {**members, "ProductionVariants": variants}

    def _kept(self, identity: Identity) -> Mapping[str, Any]:
        return kept_of_maker(identity.principal)

    def _variant(self, variant: Mapping[str, Any], identity: Identity) -> Mapping[str, Any]:
        """Return a variant with AWS's default weight, if it has none.

        Raises:
            AccessDenied: the caller may not describe the variant's model.
            ValidationException: a member is missing, or the model does not exist.
        """
        for needed in ("ModelName", "InitialInstanceCount"):
            if needed not in variant:
                raise ValidationException(
                    f"The variant {variant['VariantName']!r} has no {needed}; it must have "
                    "one, because the gateway runs no inference components and no serverless "
                    "variants."
                )
        self._catalogue.existing_model(identity, variant["ModelName"])
        return {"InitialVariantWeight": 1.0, **variant}

    def _described(self, members: Mapping[str, Any]) -> Mapping[str, Any]:
        return members
