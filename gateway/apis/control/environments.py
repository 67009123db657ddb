"""Environments that callers of the API give to containers and programs.

A container gets every variable, and a program only those that the operator has listed. A program
runs as the gateway's own user, and a variable can be a command: ``LD_PRELOAD``, ``PYTHONWARNINGS``
with ``BROWSER``, ``BASH_ENV``, ``PARTWAY_SCRIPT``. Only somebody who knows the program can tell
which variables are harmless.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import OneSource, Program
from partway.gateway.fleet.launchers.programs import OF_THE_GATEWAY
from partway.gateway.fleet.platform_interface import PORT_VARIABLE

#: The list that allows every variable, for the gateway's operator.
EVERY_VARIABLE: Final = ("*",)

#: A variable that the platform sets beside the port (clause 1.1-2).
_PORT_RANGE: Final = "SAGEMAKER_SAFE_PORT_RANGE"

#: Variables that no list allows: only the gateway sets them.
_NEVER: Final = OF_THE_GATEWAY | {_PORT_RANGE}


def environment_of(
    model: str, container: Mapping[str, Any], source: OneSource, listed: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """Return the variables of a container's definition.

    Args:
        listed: patterns of the variables that a program may get: a name, or a prefix with a ``*``
            at its end.

    Raises:
        ValidationException: a variable is not allowed; the message contains no value.
    """
    environment: Mapping[str, str] = container.get("Environment", {})
    of_the_gateway = _NEVER if isinstance(source, Program) else {PORT_VARIABLE}
    if own := sorted(of_the_gateway & environment.keys()):
        raise ValidationException(
            f"The Environment has {own[0]}, which only the gateway sets; leave it out."
        )
    if faulty := sorted(name for name, value in environment.items() if "\0" in value):
        raise ValidationException(
            f"The value of {faulty[0]} in the Environment has a zero byte; it must have none."
        )
    if isinstance(source, Program):
        _check_listed(model, container["Image"], environment, tuple(listed))
    return tuple(sorted(environment.items()))


def _check_listed(
    model: str, uri: str, environment: Iterable[str], listed: tuple[str, ...]
) -> None:
    for name in sorted(environment):
        if not any(_fits(name, pattern) for pattern in listed):
            raise ValidationException(
                f"The Environment of the model {model!r} has {name}, and a program of the "
                f"gateway's machine runs its Image {uri!r}. Such a program gets only the "
                "variables that the setting environment under [api] lists "
                f"({', '.join(listed) or 'none'}); list {name} there, or use an image that a "
                "container engine runs."
            )


def _fits(name: str, pattern: str) -> bool:
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    return name == pattern
