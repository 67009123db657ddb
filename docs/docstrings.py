"""An extension of Griffe, for ``make docs``: docstrings in reStructuredText become Markdown."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(~?)\.?([\w.]+)`")


def _name(role: re.Match[str]) -> str:
    shortened, path = role.groups()
    return f"`{path.rpartition('.')[2] if shortened else path}`"


class Roles(griffe.Extension):
    """Writes roles as code, and ``::`` before a block as a colon."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            text = _ROLE.sub(_name, obj.docstring.value)
            obj.docstring.value = re.sub(r"^::$|(?<=\w)::$", ":", text, flags=re.MULTILINE)
