"""All variables ``PARTWAY_…`` of a container: of its command and of the shipped models."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from partway.container.cli.target import KINDS
from partway.container.models import SETTINGS

if TYPE_CHECKING:
    from partway.container.settings import Settings  # pydantic, which other models do not need

#: The variables of ``partway-container serve``.
VARIABLES: Final = frozenset(
    {
        *KINDS.values(),
        "PARTWAY_BIND_TO_HOST",
        "PARTWAY_FINISH_TIMEOUT",
        "PARTWAY_LOG_FORMAT",
        "PARTWAY_LOG_LEVEL",
        "PARTWAY_METHOD",
        "PARTWAY_SHOW_ERRORS",
        "PARTWAY_UPSTREAM_AUTHORIZATION",
        "PARTWAY_UPSTREAM_HEALTH",
        "PARTWAY_UPSTREAM_PROGRAM",
        "PARTWAY_UPSTREAM_ROUTES",
    }
)


def variables_of_models(named: Collection[str] | None = None) -> frozenset[str]:
    """Return the variables of the shipped models' settings.

    Args:
        named: variables; settings are loaded only if one of these has their prefix. None loads all.
    """
    found: set[str] = set()
    for model, place in SETTINGS.items():
        prefix = f"PARTWAY_{model.upper()}_"
        if named is None or any(name.startswith(prefix) for name in named):
            module, _, attribute = place.partition(":")
            kind: type[Settings] = getattr(importlib.import_module(module), attribute)
            found |= kind.variables().keys()
    return frozenset(found)
