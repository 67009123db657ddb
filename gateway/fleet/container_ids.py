"""How the containers of an instance that has several are told apart: by the id of each.

An instance's id has letters, digits and hyphens, and so has a host name. What is between the two is
in neither, so that each can be found again in the id of a container.
"""

from __future__ import annotations

from typing import Final

_BETWEEN: Final = "_"


def container_id(instance: str, hostname: str) -> str:
    """The id of a container, by which it has its output, its GPUs and its name at an engine.

    Args:
        instance: the id of its instance.
        hostname: its own, empty for the instance's only container, whose id is the instance's.
    """
    return f"{instance}{_BETWEEN}{hostname}" if hostname else instance


def instance_of(container: str) -> str:
    """The id of a container's instance."""
    return container.partition(_BETWEEN)[0]


def hostname_of(container: str) -> str:
    """A container's host name among those of its instance; empty for its only one."""
    return container.partition(_BETWEEN)[2]
