"""The operations on endpoint configurations, CreateEndpointConfig and its neighbours (clause 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.access.authentication import Identity
from partway.gateway.control.async_rules import AsyncRules
from partway.gateway.control.catalogue import Catalogue
from partway.gateway.control.errors import ValidationException
from partway.gateway.control.json_rpc import Answer, ControlOperation
from partway.gateway.control.listing import page_of
from partway.gateway.control.resources import Kind
from partway.gateway.control.tags import new_tags

_KIND: Final[Kind] = "endpoint-config"


class EndpointConfigOperations:
    """The operations on endpoint configurations.

    Args:
        catalogue: where they are, and the models that they name.
        async_rules: what they may say of asynchronous requests.
    """

    def __init__(self, catalogue: Catalogue, async_rules: AsyncRules) -> None:
        self._catalogue = catalogue
        self._async_rules = async_rules

    @property
    def operations(self) -> Mapping[str, ControlOperation]:
        """The operations, by AWS's names of them."""
        return {
            "CreateEndpointConfig": self.create,
            "DescribeEndpointConfig": self.describe,
            "ListEndpointConfigs": self.list,
            "DeleteEndpointConfig": self.delete,
        }

    async def create(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Write a configuration down; the models that it names must be there."""
        return await self.make(members, identity, {})

    async def make(
        self, members: Mapping[str, Any], identity: Identity, kept: Mapping[str, Any]
    ) -> Answer:
        """Make a configuration.

        Args:
            members: CreateEndpointConfig's.
            identity: who asks.
            kept: what no caller of the API says of a configuration, nor is told.
        """
        name = members["EndpointConfigName"]
        arn = self._catalogue.allowed(identity, "CreateEndpointConfig", _KIND, name)
        tags = new_tags(members, identity, arn)
        self._async_rules.check(members, identity)
        variants = [self._variant(each) for each in members["ProductionVariants"]]
        asked_for = {key: value for key, value in members.items() if key != "Tags"}
        asked_for["ProductionVariants"] = variants
        names = [each["VariantName"].lower() for each in variants]
        if len(set(names)) < len(names):
            raise ValidationException(
                "Each of the ProductionVariants must have its own VariantName."
            )
        await self._catalogue.create(_KIND, name, asked_for, tags, kept)
        return {"EndpointConfigArn": arn}

    def _variant(self, variant: Mapping[str, Any]) -> Mapping[str, Any]:
        """A variant as it is kept: with the weight that AWS gives one that asks for none.

        Raises:
            ValidationException: it lacks something, or names a model that is not there.
        """
        for needed in ("ModelName", "InitialInstanceCount"):
            if needed not in variant:
                raise ValidationException(
                    f"The variant {variant['VariantName']!r} has no {needed}; it must have one: "
                    "inference components and serverless variants are not run here."
                )
        self._catalogue.existing("model", variant["ModelName"])
        return {"InitialVariantWeight": 1.0, **variant}

    async def describe(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say what a configuration was made of."""
        name = members["EndpointConfigName"]
        arn = self._catalogue.allowed(identity, "DescribeEndpointConfig", _KIND, name)
        config = self._catalogue.existing(_KIND, name)
        return {
            "EnableNetworkIsolation": False,
            **config.members,
            "EndpointConfigArn": arn,
            "CreationTime": config.created,
        }

    async def list(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Say which configurations there are."""
        identity.check("sagemaker:ListEndpointConfigs", "*")
        listed = self._catalogue.listed(_KIND, "EndpointConfig")
        return page_of("ListEndpointConfigs", "EndpointConfigs", listed, members)

    async def delete(self, members: Mapping[str, Any], identity: Identity, _: str) -> Answer:
        """Remove a configuration; endpoints that were made of it have copies."""
        name = members["EndpointConfigName"]
        self._catalogue.allowed(identity, "DeleteEndpointConfig", _KIND, name)
        await self._catalogue.delete(_KIND, name)
        return None
