"""Images by name: which run as processes of this machine, and which a container engine runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

from partway.gateway.fleet.endpoint import Attached, Image, OneSource, Program, Pull

#: Containers that ship with this project, by the names of their models.
SHIPPED: Final = ("chat", "echo", "kmeans", "linear", "pca", "speech", "text", "voice")

#: Precedes an image that the engine must run, even if another entry has its name.
ENGINE_SCHEME: Final = "docker://"

#: An engine's name of an image: host and port, path, tag and digest. The name becomes part of an
#: API path, so it must not lead elsewhere.
_IMAGE: Final = re.compile(r"(?!.*(?://|\.\.|/\.))[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}(?<![/:@])")


def is_image(uri: str) -> bool:
    return _IMAGE.fullmatch(uri.removeprefix(ENGINE_SCHEME)) is not None


def resolve_image(
    uri: str, images: Mapping[str, Program | Attached], pull: Pull = "missing"
) -> OneSource:
    """Return what runs an image: its entry in a table, else a shipped container, else the engine.

    Args:
        uri: the image's name; a name with ``docker://`` always goes to the engine.
        images: commands or running containers that replace images, by image name.
        pull: when the engine pulls the image.
    """
    if uri.startswith(ENGINE_SCHEME):
        return Image(uri.removeprefix(ENGINE_SCHEME), pull)
    if uri in images:
        return images[uri]
    if uri in SHIPPED:
        return _shipped(uri)
    return Image(uri, pull)


def _shipped(model: str) -> Program:
    # -P: a folder of the user's may be called container as well. A process of this machine is for
    # this machine alone, so it does not listen where a container would.
    words = (sys.executable, "-P", "-m", "partway.container", "serve")
    return Program((*words, "--model", model))
