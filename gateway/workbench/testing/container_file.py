"""The file ``conformance.toml``, which names a container in the words of ``partway conform``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final

from partway.gateway.configuration.expected import Flag, array, text
from partway.gateway.configuration.messages import (
    Place,
    SettingsError,
    TableRefused,
    each_line,
    given,
)
from partway.gateway.configuration.reader import read_toml
from partway.gateway.storage.files import is_folder
from partway.gateway.workbench.conformance.plan import AskedWrongly, Plan, Question, understood
from partway.gateway.workbench.conformance.probes import BUILT_IN

_SUBJECTS: Final = ("command", "url", "image")


def _can_be_passed(value: str) -> bool:
    """Whether a process can be given this string: the system's strings end at a NUL."""
    return "\0" not in value


def _is_variable(name: str) -> bool:
    return _can_be_passed(name) and bool(name) and "=" not in name


_String = Annotated[str, text("a string without NUL", _can_be_passed)]


@dataclass(frozen=True, slots=True)
class _File:
    """The members of the file, in the words of ``partway conform``."""

    command: _String | None = None
    url: _String | None = None
    image: _String | None = None
    env: dict[
        Annotated[str, text("a variable's name, without = and NUL", _is_variable)], _String
    ] = field(default_factory=dict)
    model_dir: _String | None = None
    cwd: _String | None = None
    path: _String = ""
    query: _String = ""
    probe: _String = "echo"
    fast: Flag = False
    only: Annotated[tuple[_String, ...], array("an array of strings")] | None = None

    def __post_init__(self) -> None:
        named = [name for name in _SUBJECTS if getattr(self, name) is not None]
        if len(named) != 1:
            found = f"{' and '.join(named)} were" if named else "none was"
            raise TableRefused(f"exactly one of {', '.join(_SUBJECTS)} must be given; {found}")
        if self.command is None and self.cwd is not None:
            raise TableRefused(
                f"it was given with {named[0]}; it must be given with command, which runs in this "
                "folder",
                "cwd",
            )


def read_plan(file: Path) -> Plan:
    """Read a file, and make a plan of it; paths in the file are relative to its folder.

    Raises:
        AskedWrongly: the file is not valid, or makes no sense; the message names the file.
    """
    try:
        document = read_toml(file, called=file.name)
        table = document.as_table(_File)
        folder = file.parent / (table.cwd or "")
        document.refuse(_missing_folder(table, folder))
    except SettingsError as error:
        raise AskedWrongly(str(error)) from error
    try:
        return understood(_question(table, file.parent, folder))
    except AskedWrongly as error:
        raise AskedWrongly(each_line(f"{file.name}: ", str(error))) from error


def _missing_folder(table: _File, folder: Path) -> Iterator[tuple[Place, str]]:
    if not is_folder(folder):
        yield ("cwd",), f"{given(table.cwd)}; it must be an existing folder, relative to this file"


def _question(table: _File, folder: Path, cwd: Path) -> Question:
    def beside(name: str | None) -> Path | None:
        return None if name is None else folder / name

    return Question(
        command=table.command,
        url=table.url,
        image=beside(table.image),
        env=table.env,
        model_dir=beside(table.model_dir),
        cwd=cwd,
        path=table.path,
        query=table.query,
        probe=table.probe if table.probe in BUILT_IN else folder / table.probe,
        fast=table.fast,
        only=table.only,
        called=_as_a_member,
    )


def _as_a_member(option: str) -> str:
    return option.replace("-", "_")
