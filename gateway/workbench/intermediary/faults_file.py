"""Rules for faults from a TOML file."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

from partway.gateway.files import read_bounded
from partway.gateway.workbench.intermediary.faults import FAULTS, Fault, Rule, in_words, is_of

#: Bytes of a file; a thousand rules fit.
MAX_FAULTS_BYTES: Final = 256 << 10

_T = TypeVar("_T")

_SELECTORS = tuple(field.name for field in dataclasses.fields(Rule) if field.name != "faults")


class FaultsError(Exception):
    """A file of faults does not say what it should; the message says where."""


def load_faults(path: Path) -> tuple[Rule, ...]:
    """Read rules.

    ::

        [[rule]]
        endpoint = "echo"
        first = 1
        close = { code = 1012, reason = "restarting", after = 3 }

        [[rule]]
        query = "fault=slow"
        throttle = { bytes_per_second = 500 }
        drop_pongs = true                        # true: with its defaults

    Raises:
        FaultsError: it is not TOML, or a member is missing, unknown, or wrong.
    """
    try:
        text = read_bounded(path, MAX_FAULTS_BYTES)
    except OSError as error:
        raise FaultsError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise FaultsError(f"{path}: {error}") from None
    try:
        document = tomllib.loads(text.decode())
    except (ValueError, RecursionError) as error:
        raise FaultsError(f"{path}: not TOML: {error}") from None
    for name in document:
        if name != "rule":
            raise FaultsError(f"{path}: {name}: unknown; a file is made of [[rule]] tables")
    rules = document.get("rule")
    if not isinstance(rules, list) or not rules:
        raise FaultsError(f"{path}: a [[rule]] is missing; in two brackets, for there may be many")
    return tuple(_rule(f"{path}: rule {number}", each) for number, each in enumerate(rules, 1))


def _rule(where: str, members: object) -> Rule:
    if not isinstance(members, Mapping):
        raise FaultsError(f"{where}: a table is wanted, as [[rule]] begins one")
    for name in members:
        if name not in FAULTS and name not in _SELECTORS:
            known = ", ".join((*_SELECTORS, *FAULTS))
            raise FaultsError(f"{where}: {name}: unknown; known are {known}")
    faults = tuple(
        _fault(f"{where}: {name}", kind, members[name])
        for name, kind in FAULTS.items()
        if name in members
    )
    selectors = {name: members[name] for name in _SELECTORS if name in members}
    return _made(where, Rule, {"faults": faults, **_values(where, Rule, selectors)})


def _fault(where: str, kind: type[Fault], members: object) -> Fault:
    if members is True:
        members = {}
    if not isinstance(members, Mapping):
        names = ", ".join(field.name for field in dataclasses.fields(kind))
        wanted = f"a table with {names}, or true" if names else "true"
        raise FaultsError(f"{where}: {wanted} is wanted, not {_shown(members)}")
    return _made(where, kind, _values(where, kind, members))


def _values(where: str, kind: type, members: Mapping[str, Any]) -> dict[str, Any]:
    """The members of a table, each known and of its type."""
    hints = {field.name: get_type_hints(kind)[field.name] for field in dataclasses.fields(kind)}
    values = {}
    for name, value in members.items():
        if name not in hints:
            known = f"known are {', '.join(hints)}" if hints else "it has no members"
            raise FaultsError(f"{where}: {name}: unknown; {known}")
        hint = hints[name]
        if not is_of(hint, value):
            raise FaultsError(f"{where}: {name}: {in_words(hint)} is wanted, not {_shown(value)}")
        try:
            values[name] = float(value) if hint is float else value
        except OverflowError:
            raise FaultsError(f"{where}: {name}: a number is wanted that is no larger") from None
    return values


def _made(where: str, kind: type[_T], values: Mapping[str, Any]) -> _T:
    try:
        return kind(**values)
    except ValueError as error:
        raise FaultsError(f"{where}: {error}") from None


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)
