"""All that a container can break, as checks."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.checks import (
    closing,
    control,
    http,
    messages,
    shutdown,
    startup,
    streams,
    upgrade,
    violations,
)

_AREAS = (startup, http, upgrade, messages, control, streams, closing, violations, shutdown)


def _ordered() -> tuple[Check, ...]:
    """Area by area, each check behind those that it requires."""
    waiting = [check for area in _AREAS for check in area.checks]
    placed: dict[str, Check] = {}
    while waiting:
        for check in waiting:
            if all(required in placed for required in check.requires):
                placed[check.id] = check
                waiting.remove(check)
                break
        else:
            raise ValueError(f"{waiting[0].id} requires what does not exist, or itself")
    return tuple(placed.values())


#: In the order in which they are tried.
ALL: Final = _ordered()
