"""Changes of settings, and which of them a running gateway can apply."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from partway.gateway.fleet.endpoint import Endpoint
from partway.gateway.settings.settings import Settings

#: Settings that can be applied: the endpoints, and the settings they depend on.
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
    """The differences from the settings that a gateway runs with.

    Attributes:
        changed: endpoints with changes, in their new form.
        restart: names of changed settings that need a restart.
    """

    added: tuple[Endpoint, ...]
    changed: tuple[Endpoint, ...]
    removed: tuple[str, ...]
    restart: tuple[str, ...]


def compare(old: Settings, new: Settings) -> SettingsChanges:
    """Compare settings.

    The content of files that they name, such as roots or model data, is not compared.

    Args:
        new: the settings to apply, with the same flags and variables.
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
