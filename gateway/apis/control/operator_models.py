"""Models that the gateway's own operator has made, over the admin socket and not by the API.

Of them more is kept than the API has members for: above all a command. It is kept beside the
members (``Resource.kept``), where no input of the API gets to, and from where no answer of it
comes. So nobody becomes the operator by what they write, and nobody reads the command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from partway.gateway.apis.control.errors import ValidationException
from partway.gateway.fleet.endpoint import Program
from partway.gateway.fleet.processes.commands import check_words, program_of

#: What stands where the API asks for an Image. It is no image's name, so whoever copies it into a
#: model of their own is refused, and no registry is asked for it.
INSTEAD_OF_IMAGE: Final = "partway://command"

_ENDPOINT: Final = "deployed_for"
_COMMAND: Final = "command"
_FOLDER: Final = "folder"


@dataclass(frozen=True, slots=True)
class OperatorCommand:
    """A command of the operator's.

    Attributes:
        words: program and arguments.
        folder: where it runs; absolute.
    """

    words: tuple[str, ...]
    folder: Path

    @classmethod
    def read(cls, words: object, folder: object) -> Self:
        """Take a command as it was sent.

        Raises:
            ValidationException: it is not a command; the message says what it must be.
        """
        if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
            raise ValidationException("command must be an array of words, the program's first.")
        if not isinstance(folder, str) or not folder.startswith("/") or "\0" in folder:
            raise ValidationException("folder must be an absolute path, where the command runs.")
        try:
            check_words(words)
        except ValueError as error:
            raise ValidationException(f"command cannot be started: {error}.") from None
        return cls(tuple(words), Path(folder))


def kept_of(endpoint: str, command: OperatorCommand | None = None) -> dict[str, Any]:
    """What is kept of a model or a configuration that the operator has made.

    Args:
        endpoint: the endpoint that it was made for.
        command: what runs in the place of an image; None if an image does.
    """
    kept: dict[str, Any] = {_ENDPOINT: endpoint}
    if command is not None:
        kept |= {_COMMAND: list(command.words), _FOLDER: str(command.folder)}
    return kept


def is_of_operator(kept: Mapping[str, Any]) -> bool:
    """Whether the operator has made it."""
    return _ENDPOINT in kept


def is_made_for(kept: Mapping[str, Any], endpoint: str) -> bool:
    """Whether the operator has made it for that endpoint, whatever the name's case."""
    made_for: str = kept.get(_ENDPOINT, "")
    return made_for.lower() == endpoint.lower()


def command_of(kept: Mapping[str, Any]) -> Program | None:
    """The program that runs in the place of an image; None if an image does."""
    if _COMMAND not in kept:
        return None
    return program_of(kept[_COMMAND], Path(kept[_FOLDER]))
