"""Models of the gateway's operator, which are made over the admin socket and not by the API.

Such a model can hold more than the API's members, above all a command. The command is kept beside
the members (``Resource.kept``), which no input of the API sets and no answer shows. So no caller
can pose as the operator by an input, and no caller reads the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.processes.commands import check_words, program_of

#: Stands for the Image of a model with a command. It is not a valid image name: a copy of it in a
#: caller's model is refused, and no registry is asked for it.
INSTEAD_OF_IMAGE: Final = "partway://command"

_ENDPOINT: Final = "deployed_for"
_COMMAND: Final = "command"
_FOLDER: Final = "folder"


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """A command of the operator.

    Attributes:
        words: the program and its arguments.
        folder: the absolute path of its working folder.
    """

    words: tuple[str, ...]
    folder: Path

    @classmethod
    def read(cls, words: object, folder: object) -> Self:
        """Parse a command, or raise ValidationException with what it must be."""
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise ValidationException(
                "command must be an array of strings, with the program first."
            )
        if not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
            raise ValidationException(
                "folder must be the absolute path of the folder where the command runs."
            )
        try:
            check_words(words)
        except ValueError as error:
            raise ValidationException(f"command cannot be started: {error}.") from None
        return cls(tuple(words), Path(folder))


def kept_of(endpoint: str, command: OperatorCommand | None = None) -> dict[str, Any]:
    """Return the notes on a model or a configuration that the operator makes.

    Args:
        command: runs instead of an image; None if there is an image.
    """
    kept: dict[str, Any] = {_ENDPOINT: endpoint}
    if command is not None:
        kept |= {_COMMAND: list(command.words), _FOLDER: str(command.folder)}
    return kept


def is_of_operator(kept: Mapping[str, Any]) -> bool:
    return _ENDPOINT in kept


def is_made_for(kept: Mapping[str, Any], endpoint: str) -> bool:
    """Whether the operator has made the resource for an endpoint, regardless of the name's case."""
    made_for: str = kept.get(_ENDPOINT, "")
    return made_for.lower() == endpoint.lower()


def command_of(kept: Mapping[str, Any]) -> Program | None:
    """Return the program that runs instead of an image; None if there is an image."""
    if _COMMAND not in kept:
        return None
    return program_of(kept[_COMMAND], Path(kept[_FOLDER]))
