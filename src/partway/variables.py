"""The environment's variables ``PARTWAY_…``: an unknown one is misspelt, and is refused.

Gateway, client and container may share the environment of a shell or a compose file. So a command
knows the variables of all three. It loads those of the others only for a variable that is not its
own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from partway.documentation import page
from partway.service_links import is_link

_PREFIX: Final = "PARTWAY_"

#: Variables that stand for flags, and are no settings.
_OF_FLAGS: Final = frozenset({"PARTWAY_CONFIG", "PARTWAY_TOKEN", "PARTWAY_URL"})

#: The descriptor of the state with which an upgraded gateway goes on. Settings begin otherwise.
KEPT_STATE: Final = "_PARTWAY_KEPT"


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
    from partway.unknown_names import describe_unknown

    listed = page("reference/container.md" if own else "reference/settings.md")
    return "\n".join(describe_unknown(left, _PREFIX, known, f"those in {listed}"))


def _of_all() -> Iterator[frozenset[str]]:
    """Yield the variables of flags, gateway, containers and models, each loaded when needed."""
    yield _OF_FLAGS
    from partway.gateway.settings.settings import VARIABLES as OF_THE_GATEWAY

    yield OF_THE_GATEWAY
    from partway.container.cli.environment import VARIABLES as OF_CONTAINERS
    from partway.container.cli.environment import variables_of_models

    yield OF_CONTAINERS
    yield variables_of_models()
