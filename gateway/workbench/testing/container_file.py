"""``conformance.toml``: which container is checked, in the words of ``partway conform``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from partway.gateway.workbench.conformance.asking import AskedWrongly, Plan, Question, understood
from partway.gateway.workbench.conformance.probes import BUILT_IN

#: Members, and what each holds.
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "command": (str, "a string"),
    "url": (str, "a string"),
    "image": (str, "a string"),
    "env": (dict, "a table of strings"),
    "model_dir": (str, "a string"),
    "cwd": (str, "a string"),
    "path": (str, "a string"),
    "query": (str, "a string"),
    "probe": (str, "a string"),
    "fast": (bool, "true or false"),
    "only": (list, "a list of strings"),
}
_SUBJECTS: Final = ("command", "url", "image")


def read_plan(file: Path) -> Plan:
    """Read a file, and make sense of it; files that it names are beside it.

    Raises:
        AskedWrongly: it is not TOML, or a member is missing, unknown or wrong.
    """
    try:
        members = tomllib.loads(file.read_text("utf-8"))
    # Not only tomllib's own: a number may have too many digits, and an array too many arrays in it.
    except (OSError, ValueError, RecursionError) as error:
        raise AskedWrongly(str(error)) from error
    for name, value in members.items():
        _check(name, value)
    named = [name for name in _SUBJECTS if name in members]
    if len(named) != 1:
        several = f", not {' and '.join(named)}" if named else ""
        raise AskedWrongly(f"one of {', '.join(_SUBJECTS)} is wanted{several}")
    if named != ["command"] and "cwd" in members:
        raise AskedWrongly("cwd is for a container started with command")
    return understood(_question(members, file.parent))


def _check(name: str, value: object) -> None:
    if name not in _KINDS:
        raise AskedWrongly(f"{name}: unknown; known are {', '.join(_KINDS)}")
    kind, wanted = _KINDS[name]
    strings: list[object] = []
    if isinstance(value, dict):
        strings = list(value.values())
    elif isinstance(value, list):
        strings = value
    if not isinstance(value, kind) or not all(isinstance(each, str) for each in strings):
        raise AskedWrongly(f"{name}: {wanted} is wanted")
    if any("\0" in each for each in (value, *strings) if isinstance(each, str)):
        raise AskedWrongly(f"{name}: NUL is in it")
    if isinstance(value, dict) and any(not each or set(each) & {"=", "\0"} for each in value):
        raise AskedWrongly(f"{name}: one of them is no variable's name")


def _question(members: Mapping[str, Any], folder: Path) -> Question:
    def beside(name: str) -> Path | None:
        return folder / members[name] if name in members else None

    cwd = folder / members.get("cwd", "")
    if not cwd.is_dir():
        raise AskedWrongly(f"cwd {cwd}: there is no such folder")
    probe = members.get("probe", "echo")
    return Question(
        command=members.get("command"),
        url=members.get("url"),
        image=beside("image"),
        env=members.get("env", {}),
        model_dir=beside("model_dir"),
        cwd=cwd,
        path=members.get("path", ""),
        query=members.get("query", ""),
        probe=probe if probe in BUILT_IN else folder / probe,
        fast=members.get("fast", False),
        only=members.get("only"),
        called=_as_a_member,
    )


def _as_a_member(option: str) -> str:
    return option.replace("-", "_")
