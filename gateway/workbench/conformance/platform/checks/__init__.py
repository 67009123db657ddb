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
    "1.1-1": "how a container is started and stopped is no gateway's to do",
    "1.1-3": "how long a start may take is no gateway's to say",
    "1.1-5": "a gateway that serves streams alone asks for no /invocations",
    "1.1-6": "what is mounted in a container is no gateway's to do",
    "1.1-7": "where artifacts come from is no gateway's to do",
    "1.1-8": "the container's: a gateway looks at no text (clause 1.2-5)",
    "1.4-2": "shown by tests of the gateway: a container cannot see a clock that stands still",
    "1.4-4": "the client's side",
    "1.4-5": "takes 30 minutes",
    "1.5-13": "a Close that cannot be written is seen by nobody",
}
