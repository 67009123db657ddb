"""Recipes of images read as a builder reads them, and held to what the platform asks of an image.

::

    recipe = Recipe((ROOT / "Dockerfile").read_text("utf-8"))
    assert departures(recipe) == []
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import NamedTuple

#: What tells the platform that an image takes bidirectional streams (clause 1.1-4).
LABEL = "com.amazonaws.sagemaker.capabilities.bidirectional-streaming"

#: Where the platform puts the model's artifacts, for reading only (clause 1.1-6).
ARTIFACTS = "/opt/ml/model"

#: Programs that start the container's own and stay in front of it.
_INITS = re.compile(r"\b(tini|dumb-init|catatonit|s6-svscan|supervisord)\b")


class Instruction(NamedTuple):
    name: str
    arguments: str

    @property
    def command(self) -> list[str] | None:
        """The words of the exec form; ``None`` for the shell form, and what passes for it.

        A builder takes an array that is no JSON, such as one in single quotes, as a shell's words.
        """
        try:
            words = json.loads(self.arguments)
        except ValueError:
            return None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            return None
        return words

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        """The names and values of an ``ENV`` or a ``LABEL``, in either of its two forms."""
        name, space, value = self.arguments.partition(" ")
        if space and "=" not in name:
            yield name, value.strip()
            return
        for word in shlex.split(self.arguments):
            name, _, value = word.partition("=")
            yield name, value


class Recipe:
    """A Dockerfile's instructions.

    Args:
        text: the file.
        target: the stage that is built; the last one unless it is given.

    Attributes:
        all: every instruction, in order.
        image: those that make the image: from the ``FROM`` on of the stage that it is built by, and
            before them those of the stages that this one is built on.

    Raises:
        ValueError: the text has a here-document, which is not read here.
    """

    def __init__(self, text: str, target: str | None = None) -> None:
        # Comments and empty lines may also stand within an instruction of several lines.
        lines = [line for line in text.splitlines() if line.strip() and not re.match(r"\s*#", line)]
        joined = re.sub(r"\\[ \t]*\n\s*", "", "\n".join(lines))
        self.all = [
            Instruction(name.upper(), arguments.strip())
            for name, _, arguments in (line.strip().partition(" ") for line in joined.splitlines())
        ]
        if any(re.search(r"<<-?[\"']?\w", each.arguments) for each in self.all):
            raise ValueError("here-documents are not read")
        self.image = self._built_by(target)

    def _built_by(self, target: str | None) -> list[Instruction]:
        stages: list[list[Instruction]] = [[]]  # the first one: what stands before any FROM
        for each in self.all:
            if each.name == "FROM":
                stages.append([])
            stages[-1].append(each)
        named = {stage[0].arguments.partition(" AS ")[2]: stage for stage in stages[1:]}
        image = stages[-1] if target is None else named[target]
        while image[0].name == "FROM" and (base := named.get(image[0].arguments.split()[0])):
            image = base + image
        return image

    def named(self, name: str) -> list[Instruction]:
        """The image's instructions of a name."""
        return [each for each in self.image if each.name == name]

    def last(self, name: str) -> Instruction | None:
        """The one of a name that counts, where the last one does."""
        found = self.named(name)
        return found[-1] if found else None

    def values(self, name: str) -> dict[str, str]:
        """What the image's ``ENV`` or ``LABEL`` instructions set."""
        return {key: value for each in self.named(name) for key, value in each.pairs}


def departures(recipe: Recipe) -> list[str]:
    """What the platform (section 1.1) and our runtime ask of an image and a recipe does not give.

    The recipe is taken by itself: what it would inherit from its base is not known.
    """
    found = [*_of_entry(recipe)]
    if recipe.values("LABEL").get(LABEL) != "true":
        found.append("no label that tells of bidirectional streams")
    ports = " ".join(each.arguments for each in recipe.named("EXPOSE"))
    if not re.search(r"\b8080\b", ports):
        found.append("no word of port 8080")
    user = recipe.last("USER")
    if user is not None and user.arguments not in {"root", "0"}:
        found.append(f"it runs as {user.arguments}, not as root")
    signal = recipe.last("STOPSIGNAL")
    if signal is not None and signal.arguments not in {"SIGTERM", "15"}:
        found.append(f"it is to be stopped by {signal.arguments}, not SIGTERM")
    directory = recipe.last("WORKDIR")
    if directory is None or not directory.arguments.startswith("/"):
        found.append("no directory in which the model's code is found")
    elif directory.arguments.startswith(ARTIFACTS):
        found.append("its code would lie where the artifacts hide it")
    return found


def _of_entry(recipe: Recipe) -> Iterator[str]:
    entry = recipe.last("ENTRYPOINT")
    if entry is None:
        yield "no entry point"
    elif entry.command is None:
        yield "the entry point is a shell's, which loses `serve` and may keep the signal"
    else:
        if "serve" in entry.command:
            yield "the entry point has `serve`, which the platform appends"
        if _INITS.search(entry.arguments):
            yield "a program stands before the container's own"
    default = recipe.last("CMD")
    if default is not None and default.command != ["serve"]:
        yield "by default it does not do what the platform asks for, `serve`"
