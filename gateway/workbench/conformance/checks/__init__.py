"""All checks of a container's conduct, in their areas."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Check
from partway.gateway.workbench.conformance.checks import (
    close_codes,
    closing,
    control,
    endings,
    heads,
    http,
    leaks,
    lengths,
    messages,
    openai,
    shutdown,
    sizes,
    startup,
    streams,
    text,
    upgrade,
    violations,
    wear,
)

_HANDSHAKES = (startup, http, upgrade, heads)
_PATHS = (openai,)
#: Checks that count a container's resources come before those that send megabytes. Memory that was
#: freed again would hide a leak.
_LASTING = (closing, endings, wear, streams, leaks)
_MESSAGES = (messages, lengths, text, sizes, control)
_AREAS = (*_HANDSHAKES, *_PATHS, *_LASTING, *_MESSAGES, close_codes, violations, shutdown)


def _ordered() -> tuple[Check, ...]:
    """All checks, area by area, each behind the checks that it requires."""
    waiting = [check for area in _AREAS for check in area.checks]
    placed: dict[str, Check] = {}
    while waiting:
        for check in waiting:
            if all(required in placed for required in check.requires):
                placed[check.id] = check
                waiting.remove(check)
                break
        else:
            raise ValueError(f"{waiting[0].id} requires a check that does not exist, or itself")
    return tuple(placed.values())


#: All checks of a container, in the order in which they are tried.
ALL: Final = _ordered()
