"""Settings that have changed: what of them a gateway that runs can take."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.settings.settings import Settings

#: What can be taken: the endpoints, and what they and those of the API are made of.
_TAKEN: Final = frozenset(
    {
        "api_environment",
        "container_ca",
        "endpoints",
        "images",
        "local_roots",
        "max_containers",
        "policy",
        "times",
    }
)


@dataclass(frozen=True, slots=True)
class SettingsChanges:
    """How settings differ from those that a gateway runs with.

    Attributes:
        added: endpoints that are new.
        changed: endpoints that are to be otherwise than they are, as they are to be.
        removed: names of endpoints that are there no more.
        restart: names of settings that are otherwise too, which takes a restart.
    """

    added: tuple[Endpoint, ...]
    changed: tuple[Endpoint, ...]
    removed: tuple[str, ...]
    restart: tuple[str, ...]


def compare(old: Settings, new: Settings) -> SettingsChanges:
    """Find out how settings have changed.

    Whether what is in a file has changed that they name, such as roots or model data, is not looked
    at.

    Args:
        old: those that the gateway runs with.
        new: those that it is to have, with the same flags and variables.
    """
    before = {endpoint.name: endpoint for endpoint in old.endpoints}
    after = {endpoint.name: endpoint for endpoint in new.endpoints}
    return SettingsChanges(
        added=tuple(endpoint for name, endpoint in after.items() if name not in before),
        changed=tuple(
            endpoint
            for name, endpoint in after.items()
            if name in before and endpoint != before[name]
        ),
        removed=tuple(name for name in before if name not in after),
        restart=tuple(
            field.name
            for field in dataclasses.fields(Settings)
            if field.name not in _TAKEN
            if getattr(old, field.name) != getattr(new, field.name)
        ),
    )
