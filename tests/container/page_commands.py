"""The commands that a page of the docs shows for a container, and what it shows that they print."""

from __future__ import annotations

import re
import shlex

from partway.container.testing import Served


def shown(page: str) -> list[tuple[str, str]]:
    """Each ``curl`` of a page, and its output."""
    return re.findall(r"```sh\n(curl .*?)```\n\n```\n(.*?)```", page, re.DOTALL)


async def assert_answers(served: Served, examples: list[tuple[str, str]]) -> None:
    """A container answers each command as the page shows."""
    for command, output in examples:
        words = shlex.split(command.replace("\\\n", ""))
        options = list(zip(words[2::2], words[3::2], strict=True))
        headers = dict(value.split(": ") for option, value in options if option == "-H")
        (body,) = (value for option, value in options if option == "-d")
        answer = await served.invoke(body, headers.pop("Content-Type"), **headers)
        assert answer.body.decode().rstrip("\n") == output.rstrip("\n")
