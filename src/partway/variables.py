"""The environment's variables ``PARTWAY_…``: an unknown one is misspelt, and is refused.

Gateway, client and container may share the environment of a shell or a compose file. So a command
knows the variables of all three. It loads those of the others only for a variable that is not its
own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from typing import Final

from partway.documentation import page
from partway.service_links import is_link

_PREFIX: Final = "PARTWAY_"

#: Variables that stand for flags, and are no settings.
_OF_FLAGS: Final = frozenset({"PARTWAY_CONFIG", "PARTWAY_TOKEN", "PARTWAY_URL"})

#: Most unknown variables that are named.
_MAX_SHOWN: Final = 10

#: Characters of a name that are shown.
_MAX_NAME: Final = 60


def unknown_variables(environment: Mapping[str, str], own: Collection[str] = ()) -> str:
    """Name the variables that are unknown.

    Args:
        environment: usually ``os.environ``.
        own: the variables that the command itself knows.

    Returns:
        A line for each of the first ten, with the nearest known variable; empty without any.
    """
    left = {
        name
        for name, value in environment.items()
        if name.startswith(_PREFIX) and name not in own and not is_link(name, value)
    }
    known = set(own)
    for variables in _of_all():
        if not left:
            return ""
        known |= variables
        left -= variables
    lines = [_said(name, known, bool(own)) for name in sorted(left)[:_MAX_SHOWN]]
    if len(left) > _MAX_SHOWN:
        lines.append(f"there are {len(left) - _MAX_SHOWN} more unknown variables {_PREFIX}…")
    return "\n".join(lines)


def _of_all() -> Iterator[frozenset[str]]:
    """Yield the variables of flags, gateway and containers; each set is loaded when needed."""
    yield _OF_FLAGS
    from partway.gateway.settings.settings import VARIABLES as OF_THE_GATEWAY

    yield OF_THE_GATEWAY
    from partway.container.cli.environment import VARIABLES as OF_CONTAINERS

    yield OF_CONTAINERS


def _said(name: str, known: Collection[str], of_container: bool) -> str:
    shown = name[:_MAX_NAME]
    if not (shown.isascii() and shown.isprintable()):
        shown = ascii(shown)
    # Without the common prefix, which would make any two names alike.
    short = [each.removeprefix(_PREFIX) for each in sorted(known)]
    near = get_close_matches(name[:_MAX_NAME].removeprefix(_PREFIX), short, n=1)
    if near:
        return f"{shown}: this variable is unknown; the nearest known one is {_PREFIX}{near[0]}"
    listed = page("reference/container.md" if of_container else "reference/settings.md")
    return f"{shown}: this variable is unknown; it must be one of those in {listed}"
