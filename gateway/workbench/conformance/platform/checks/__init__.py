"""All checks of a platform, in their areas."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.platform.checks import (
    closing,
    ends,
    frames,
    parts,
    pings,
    pongs,
    replies,
    upgrade,
    violations,
)

_AREAS = (upgrade, frames, parts, replies, pongs, closing, ends, violations, pings)

#: All checks of a platform, in the order of trying; each stands behind those that it requires.
ALL: Final[tuple[Check, ...]] = tuple(check for area in _AREAS for check in area.checks)

#: Clauses of the contract's container side that no check here claims, and why.
UNCLAIMED: Final = {
    "1.1-1": "not a gateway's task: to start and stop containers",
    "1.1-3": "not a gateway's task: to limit the time of a start",
    "1.1-5": "a gateway that serves only streams does not use /invocations",
    "1.1-6": "not a gateway's task: to mount artifacts in a container",
    "1.1-7": "not a gateway's task: to fetch artifacts",
    "1.1-8": "the container's task: a gateway does not read texts (clause 1.2-5)",
    "1.4-2": "the gateway's own tests show it: a container cannot see a clock that stands still",
    "1.4-4": "the client's side",
    "1.4-5": "a check would take 30 minutes",
    "1.5-13": "nobody can see a Close that cannot be written",
    **dict.fromkeys(
        ("1.7-1", "1.7-2", "1.7-3", "1.7-4", "1.7-5"),
        "a gateway that serves only streams does not use OpenAI's path",
    ),
}
