"""Models of the API that are written for Vertex AI, as their Environment shows.

``AIP_PREDICT_ROUTE`` or ``AIP_HEALTH_ROUTE`` marks such a container, and ``AIP_HTTP_PORT`` is the
port of its image. Callers set only paths and a port in this way. The gateway sets the other
variables of Vertex AI itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.platform_interface import (
    HEALTH_ROUTE,
    HTTP_PORT,
    OF_VERTEX,
    PORT,
    PREDICT_ROUTE,
    VertexContainer,
)
from partway.gateway.fleet.prediction import ROUTE, is_route

_SAID: Final = frozenset({HEALTH_ROUTE, PREDICT_ROUTE, HTTP_PORT})
_PORTS: Final = range(1, 65_536)


def vertex_of(container: Mapping[str, Any]) -> VertexContainer | None:
    """Return the settings of a Vertex AI container; None for any other container.

    Raises:
        ValidationException: a path or the port is not valid, or a variable is present that only the
            gateway sets.
    """
    environment: Mapping[str, str] = container.get("Environment", {})
    if not environment.keys() & {HEALTH_ROUTE, PREDICT_ROUTE}:
        return None
    for name in (HEALTH_ROUTE, PREDICT_ROUTE):
        if name in environment and not is_route(environment[name]):
            raise ValidationException(f"{name} in the Environment must be {ROUTE}.")
    port = environment.get(HTTP_PORT, str(PORT))
    if not (port.isascii() and port.isdecimal() and len(port) < 6 and int(port) in _PORTS):
        raise ValidationException(
            f"{HTTP_PORT} in the Environment must be a whole number from 1 to {_PORTS[-1]}."
        )
    if own := sorted((OF_VERTEX - _SAID) & environment.keys()):
        raise ValidationException(
            f"The Environment has {own[0]}, which only the gateway sets for a container of "
            "Vertex AI; leave it out."
        )
    return VertexContainer(
        environment.get(HEALTH_ROUTE, ""), environment.get(PREDICT_ROUTE, ""), int(port)
    )


def without_what_it_says(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the definition without the variables that :func:`vertex_of` has read."""
    environment = {
        name: value for name, value in container.get("Environment", {}).items() if name not in _SAID
    }
    return {**container, "Environment": environment}
