"""Labels of the objects that the operator makes for a DeployedModel."""

from __future__ import annotations

from typing import Final

#: Before the names of the project's own labels and annotations.
PREFIX: Final = "partway.dev/"

#: The label of all that belongs to a DeployedModel, and selects its pods.
MODEL_LABEL: Final = f"{PREFIX}model"

#: The label with the endpoint that a DeployedModel's ``endpointPath`` names.
ENDPOINT_LABEL: Final = f"{PREFIX}endpoint"
