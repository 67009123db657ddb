"""Differences between platforms: where a container answers, and which variables it gets.

Containers are written for SageMaker (clause 1.1-2), or for Vertex AI, by its requirements of custom
containers, version 1.0.0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from partway.gateway.fleet.prediction import INVOCATIONS

#: The platform for which a container is written.
Platform: TypeAlias = Literal["sagemaker", "vertex"]

#: Where a container reports its health (clause 1.1-2).
PING: Final = "/ping"

#: The default port of a container (clause 1.1-2, and Vertex AI's too).
PORT: Final = 8080

#: Tells a container where to listen (clause 1.1-2).
PORT_VARIABLE: Final = "SAGEMAKER_BIND_TO_PORT"

#: Variables of Vertex AI's containers; only the gateway sets them.
HTTP_PORT: Final = "AIP_HTTP_PORT"
HEALTH_ROUTE: Final = "AIP_HEALTH_ROUTE"
PREDICT_ROUTE: Final = "AIP_PREDICT_ROUTE"
OF_VERTEX: Final = frozenset(
    {
        HTTP_PORT,
        HEALTH_ROUTE,
        PREDICT_ROUTE,
        "AIP_STORAGE_URI",
        "AIP_MODE",
        "AIP_MODE_VERSION",
        "AIP_FRAMEWORK",
        "AIP_ENDPOINT_ID",
        "AIP_MODEL_NAME",
        "AIP_DEPLOYED_MODEL_ID",
        "AIP_VERSION_NAME",
    }
)


@dataclass(frozen=True, slots=True)
class Surface:
    """The paths at which a container answers.

    Attributes:
        health: where it reports its health, by a status of 200.
    """

    health: str = PING
    requests: str = INVOCATIONS


#: The paths of a container written for SageMaker.
SAGEMAKER: Final = Surface()


@dataclass(frozen=True, slots=True)
class VertexContainer:
    """A container written for Vertex AI.

    Attributes:
        health_route: where it reports its health; empty for the platform's default.
        predict_route: where it takes requests; empty for the platform's default.
        port: where an image listens; a program gets a port of its own.
    """

    health_route: str = ""
    predict_route: str = ""
    port: int = PORT

    def surface(self, endpoint: str, variant: str) -> Surface:
        default = f"/v1/endpoints/{endpoint}/deployedModels/{variant}"
        return Surface(self.health_route or default, self.predict_route or f"{default}:predict")

    def environment(self, endpoint: str, variant: str, port: int, storage: str) -> dict[str, str]:
        """Return the variables it gets.

        ``storage`` is the folder with the model's artifacts, as the container sees it; it is empty
        for none.
        """
        surface = self.surface(endpoint, variant)
        return {
            HTTP_PORT: str(port),
            HEALTH_ROUTE: surface.health,
            PREDICT_ROUTE: surface.requests,
            "AIP_STORAGE_URI": storage,
            "AIP_MODE": "PREDICTION",
            "AIP_MODE_VERSION": "1.0.0",
            "AIP_FRAMEWORK": "CUSTOM_CONTAINER",
            "AIP_ENDPOINT_ID": endpoint,
            "AIP_MODEL_NAME": endpoint,
            "AIP_DEPLOYED_MODEL_ID": variant,
            "AIP_VERSION_NAME": variant,
        }
