"""Ids of containers.

An instance may have several containers, and each has an id of its own. Instance ids and host names
consist of letters, digits and hyphens. The separator is another character, so an id can be
split again.
"""

from __future__ import annotations

from typing import Final

_BETWEEN: Final = "_"


def container_id(instance: str, hostname: str) -> str:
    """Return the id that names a container's output, its GPUs and the container at an engine.

    ``hostname`` is empty for an instance's only container, whose id is the instance's.
    """
    return f"{instance}{_BETWEEN}{hostname}" if hostname else instance


def instance_of(container: str) -> str:
    return container.partition(_BETWEEN)[0]


def hostname_of(container: str) -> str:
    """Return a container's host name within its instance; empty for an only container."""
    return container.partition(_BETWEEN)[2]
