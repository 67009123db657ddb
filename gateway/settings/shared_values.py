"""Values that flags and variables may have as well as a file: names, and times of instances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from partway.gateway.configuration.expected import Must, number, text, whole
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.fleet.launchers.images import is_image
from partway.gateway.fleet.limits import (
    HEALTH_PING_INTERVAL,
    HEALTH_PINGS_MISSED,
    INSTANCE_DRAIN_TIMEOUT,
    PING_TIMEOUT,
    START_TIMEOUT,
    STOP_GRACE,
)
from partway.gateway.fleet.processes.commands import check_words, command_words
from partway.protocol.limits import MAX_ENDPOINT_NAME, is_name

_DAY: Final = 86_400


def is_container_url(url: str) -> bool:
    try:
        container_address(url, tls=True)
    except ValueError:
        return False
    return True


def _words(value: object) -> object:
    """Split a command into words, from a string or an array."""
    if isinstance(value, str):
        return command_words(value)
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        check_words(value)
    return value


Name = Annotated[
    str,
    text(
        f"1 to {MAX_ENDPOINT_NAME} letters, digits and hyphens, with a letter or digit at both "
        "ends",
        is_name,
    ),
]
ImageName = Annotated[
    str, text("an image's name, such as chat:1 or registry.example/chat:1", is_image)
]
CommandWords = Annotated[
    tuple[str, ...],
    Must(
        "a command, as a string or as an array of strings",
        lambda core, inner: core.no_info_before_validator_function(
            _words, {**inner(), "fail_fast": True}
        ),
    ),
]
ContainerUrl = Annotated[
    str,
    text(
        "an http:// or https:// URL with host and port and no path, such as http://127.0.0.1:8080",
        is_container_url,
    ),
]
_Seconds = Annotated[float, number(above=0, most=_DAY, unit="seconds")]


# This class has no slots. An endpoint's table inherits from it and from others, and Python allows
# slots from one base class only.
@dataclass(frozen=True, kw_only=True)
class InstanceTable:
    """``[instance]``: defaults for the instances of all endpoints.

    :class:`~partway.gateway.fleet.endpoint.InstanceTimes` describes them.
    """

    startup_timeout: _Seconds = START_TIMEOUT
    health_ping_interval: Annotated[float, number(least=0, most=_DAY, unit="seconds")] = (
        HEALTH_PING_INTERVAL
    )
    health_ping_timeout: _Seconds = PING_TIMEOUT
    health_pings_missed: Annotated[int, whole(1, 1000, "pings")] = HEALTH_PINGS_MISSED
    instance_drain_timeout: _Seconds = INSTANCE_DRAIN_TIMEOUT
    stop_timeout: _Seconds = STOP_GRACE
