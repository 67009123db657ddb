"""Images by name: which run as processes of this machine, and which a container engine runs."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Final

from partway.gateway.fleet.endpoint import Attached, Image, OneSource, Program, Pull

#: Containers that ship with this project, by the names of their models.
SHIPPED: Final = ("echo", "kmeans", "linear", "pca", "speech", "text")

#: Before an image that the engine is to run, whatever else goes by its name.
ENGINE_SCHEME: Final = "docker://"

#: What an engine may know an image by: host and port, path, tag and digest. A path of its API is
#: made with it, which must lead nowhere else.
_IMAGE: Final = re.compile(r"(?!.*(?://|\.\.|/\.))[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}(?<![/:@])")


def is_image(uri: str) -> bool:
    """Whether a text can name an image."""
    return _IMAGE.fullmatch(uri.removeprefix(ENGINE_SCHEME)) is not None


def resolve_image(
    uri: str, images: Mapping[str, Program | Attached], pull: Pull = "missing"
) -> OneSource:
    """What runs an image: its entry in a table, else a container that ships, else the engine.

    Args:
        uri: the image's name; with ``docker://`` before it, it is the engine's in any case.
        images: commands, or running containers, that stand for images, by the images' names.
        pull: when the engine is to pull it.
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
