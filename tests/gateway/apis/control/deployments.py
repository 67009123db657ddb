"""What a script of boto3's does with endpoints, against a gateway that runs."""

from __future__ import annotations

from typing import Any

from botocore.client import BaseClient
from botocore.credentials import Credentials

from tests.gateway.apis.aws_client import KEY, sagemaker

#: Waiters ask so often, and so many times: half a minute, which nothing here takes.
_DELAY = 0.05
_TIMES = 800


def variant(model: str, name: str = "AllTraffic", count: int = 1, **members: Any) -> dict[str, Any]:
    """A variant as ``create_endpoint_config`` takes it."""
    return {
        "VariantName": name,
        "ModelName": model,
        "InitialInstanceCount": count,
        "InstanceType": "ml.m5.large",
        **members,
    }


class Script:
    """A script that deploys.

    Attributes:
        client: boto3's.
    """

    def __init__(self, port: int, key: Credentials = KEY) -> None:
        self.client: BaseClient = sagemaker(port, key)

    def model(self, name: str, image: str, **container: Any) -> None:
        """Make a model and a configuration of one instance, both by its name."""
        self.client.create_model(ModelName=name, PrimaryContainer={"Image": image, **container})
        self.config(name, variant(name))

    def config(self, name: str, *variants: dict[str, Any]) -> None:
        self.client.create_endpoint_config(
            EndpointConfigName=name, ProductionVariants=list(variants)
        )

    def create(self, name: str, config: str) -> None:
        """Begin to make an endpoint."""
        self.client.create_endpoint(EndpointName=name, EndpointConfigName=config)

    def update(self, name: str, config: str, **members: Any) -> None:
        self.client.update_endpoint(EndpointName=name, EndpointConfigName=config, **members)

    def update_whole(self, name: str, config: str) -> dict[str, Any]:
        """Update an endpoint, and wait until that is done; returns what is said of it then."""
        self.update(name, config)
        return self.in_service(name)

    def scale(self, name: str, count: int, variant: str = "AllTraffic") -> None:
        """Have another number of instances, and wait for them."""
        desired = [{"VariantName": variant, "DesiredInstanceCount": count}]
        self.client.update_endpoint_weights_and_capacities(
            EndpointName=name, DesiredWeightsAndCapacities=desired
        )
        self.in_service(name)

    def delete(self, name: str) -> None:
        """Delete an endpoint, and wait until it is gone."""
        self.client.delete_endpoint(EndpointName=name)
        self._wait("endpoint_deleted", name)

    def in_service(self, name: str) -> dict[str, Any]:
        """Wait for an endpoint as scripts do; returns what is said of it then."""
        self._wait("endpoint_in_service", name)
        return self.describe(name)

    def describe(self, name: str) -> dict[str, Any]:
        """What is said of an endpoint."""
        said: dict[str, Any] = self.client.describe_endpoint(EndpointName=name)
        return said

    def names(self) -> list[str]:
        answer = self.client.list_endpoints(SortBy="Name", SortOrder="Ascending")
        return [each["EndpointName"] for each in answer["Endpoints"]]

    def _wait(self, waiter: str, name: str) -> None:
        waiting = {"Delay": _DELAY, "MaxAttempts": _TIMES}
        self.client.get_waiter(waiter).wait(EndpointName=name, WaiterConfig=waiting)
