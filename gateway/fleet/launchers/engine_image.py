"""An image's configuration, and whether the platform can start it (clauses 1.1-1, 1.1-4)."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from partway.gateway.plain_text import cut

#: The label by which an image declares bidirectional streams (clause 1.1-4).
LABEL: Final = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"

#: Where a container finds its model's artifacts (clause 1.1-6).
ARTIFACTS: Final = "/opt/ml/model"

#: How to fix an image that cannot be started, or lacks the label.
ENTRYPOINT_REMEDY: Final = (
    'write ENTRYPOINT ["program", "argument"] in the Dockerfile: a list, in double quotes'
)
LABEL_REMEDY: Final = f"add to the Dockerfile: LABEL {LABEL}=true"

#: Characters of an image's own values that a message repeats.
_MAX_SHOWN: Final = 300

_KINDS: Final[Mapping[type[Any], str]] = {str: "a string", list: "a list", dict: "an object"}
_SHELLS: Final = frozenset({"sh", "bash", "ash", "dash", "zsh", "ksh"})


@dataclass(frozen=True, slots=True)
class ImageConfiguration:
    """An image's configuration.

    Attributes:
        entrypoint: the words of its ENTRYPOINT; empty if there is no ENTRYPOINT.
        command: the words of its CMD; empty if there is no CMD.
        user: the user it runs as; empty for root.
        ports: the ports it exposes, as ``8080/tcp``.
        stop_signal: its STOPSIGNAL; empty for SIGTERM.
        id: the engine's unique id of the image; empty if no engine was asked.
    """

    entrypoint: tuple[str, ...] = ()
    user: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: frozenset[str] = frozenset()
    stop_signal: str = ""
    directory: str = ""
    id: str = ""
    command: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return cut(json.dumps(self.entrypoint), _MAX_SHOWN)


def image_configuration(members: Mapping[str, Any]) -> ImageConfiguration:
    """Read the member ``config`` of an image's configuration, in the format of Docker and OCI.

    Raises:
        ValueError: a member has the wrong type; the message names it.
    """

    def member(name: str, kind: type[Any]) -> Any:
        value = members.get(name)
        if value is None:
            return kind()
        if not isinstance(value, kind):
            what = f"{name} in the image's configuration must be {_KINDS[kind]}"
            raise ValueError(what)  # noqa: TRY004 (a document has the wrong type, not an argument)
        return value

    return ImageConfiguration(
        entrypoint=tuple(map(str, member("Entrypoint", list))),
        user=member("User", str),
        labels={name: str(value) for name, value in member("Labels", dict).items()},
        ports=frozenset(member("ExposedPorts", dict)),
        stop_signal=member("StopSignal", str),
        directory=member("WorkingDir", str),
        command=tuple(map(str, member("Cmd", list))),
    )


def entrypoint_trouble(image: ImageConfiguration) -> str:
    """Say why the platform cannot start the image (clause 1.1-1); empty if it can."""
    if not image.entrypoint:
        return "there is no ENTRYPOINT: the platform then starts a program `serve` in the image"
    program = posixpath.basename(image.entrypoint[0])
    if program in _SHELLS and any(re.fullmatch("-[a-z]*c", word) for word in image.entrypoint[1:]):
        return (
            f"the ENTRYPOINT runs a shell, {image.words}, which drops the argument `serve` and may "
            "not pass SIGTERM on"
        )
    return ""


def label_trouble(image: ImageConfiguration) -> str:
    """Say why the platform opens no bidirectional stream to the image (1.1-4); empty if it does."""
    value = image.labels.get(LABEL)
    if value is None:
        return f"there is no label {LABEL}"
    if value != "true":
        return f"the label {LABEL} is {shown(value)}, not 'true'"
    return ""


def why_not_started(image: ImageConfiguration) -> str:
    """Say why the image cannot be started, and what to do; empty if it can."""
    if trouble := entrypoint_trouble(image):
        return f"{trouble}; {ENTRYPOINT_REMEDY}"
    if trouble := label_trouble(image):
        return f"{trouble}; {LABEL_REMEDY}"
    return ""


def why_vertex_not_started(image: ImageConfiguration) -> str:
    """Say why Vertex AI could not start the image; empty if it could."""
    if image.entrypoint or image.command:
        return ""
    return f"there is neither ENTRYPOINT nor CMD for Vertex AI to start; {ENTRYPOINT_REMEDY}"


def shown(value: object) -> str:
    return cut(repr(value), _MAX_SHOWN)
