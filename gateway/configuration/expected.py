"""Value constraints, noted beside a key's type: in words, and as pydantic checks them.

A table of a file is a frozen dataclass, and each of its fields is a key::

    @dataclass(frozen=True, slots=True)
    class StreamTable:
        input_end: Literal["close", "drain"] = "close"
        lifetime: Annotated[float, number(above=0, unit="seconds")] = 1800.0
        max_part: Annotated[int, whole(1, 16_777_216, "bytes")] = 1_048_576

A field without a default is a required key. Its type decides what the value is: a dataclass stands
for a table, ``dict[str, …]`` for a table with the user's names, and ``tuple[…, ...]`` for an array.

Define a note with a lambda outside of the class: ``typing.get_type_hints`` evaluates annotations
with the class for its globals, so a lambda there cannot see its module.

Strings need no note. Numbers, ``bool``, dates and paths do, or pydantic would accept ``"1"``,
``1``, ``1.0`` and ``true`` for one another. A table that lacks a note is refused when it is first
read.

pydantic is imported with the check of the first table, and its core with that of the first value.
The import takes longer than all of ``partway invoke --help``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

_T = TypeVar("_T")

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

    #: Makes pydantic's schema from ``pydantic_core.core_schema`` and the schema of the bare type.
    Schema: TypeAlias = Callable[[ModuleType, Callable[[], CoreSchema]], CoreSchema]


@dataclass(frozen=True, slots=True)
class Must:
    """A constraint on a value.

    Attributes:
        words: completes "it must be …".
        schema: pydantic's check of it.
        table: the dataclass with the keys of a table given here, if the type does not name it.
        secret: whether messages must not repeat the value, or its content except for keys.
    """

    words: str
    schema: Schema
    table: type | None = None
    secret: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        kind = source if self.table is None else self.table
        return self.schema(core_schema, lambda: handler.generate_schema(kind))


def whole(least: int, most: int | None = None, unit: str = "") -> Must:
    """Require a whole number; ``true`` and ``1.0`` are refused.

    Args:
        most: largest allowed; None for no bound.
    """
    kind = f"a whole number of {unit}" if unit else "a whole number"
    bounds = f", {least} or more" if most is None else f" from {least} to {most}"
    return Must(kind + bounds, lambda core, _: core.int_schema(strict=True, ge=least, le=most))


def number(
    *,
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    unit: str = "",
) -> Must:
    """Require a finite number, whole or not.

    Args:
        least: smallest allowed; or
        above: exclusive lower bound.
        most: largest allowed; None for no bound.
    """
    lowest = f"above {above:g}" if least is None else f"from {least:g}"
    highest = "" if most is None else f"{' to' if above is None else ' and at most'} {most:g}"
    return Must(
        " ".join(filter(None, ("a finite number", unit and f"of {unit}", lowest + highest))),
        lambda core, _: core.float_schema(
            strict=True, ge=least, gt=above, le=most, allow_inf_nan=False
        ),
    )


def text(words: str, allows: Callable[[str], object]) -> Must:
    """Require a string of a certain form.

    Args:
        allows: whether a string has the form. It may raise ValueError with a reason, which is
            shown.
    """
    return Must(
        words,
        lambda core, _: core.no_info_after_validator_function(
            _if_allowed(allows), core.str_schema(strict=True)
        ),
    )


def whole_of(words: str, allows: Callable[[int], object]) -> Must:
    """Require a whole number, where bounds alone do not define which.

    Args:
        allows: whether a number fulfils it; as for :func:`text`.
    """
    return Must(
        words,
        lambda core, _: core.no_info_after_validator_function(
            _if_allowed(allows), core.int_schema(strict=True)
        ),
    )


def _if_allowed(allows: Callable[[_T], object]) -> Callable[[_T], _T]:
    def allowed(value: _T) -> _T:
        if not allows(value):
            raise ValueError
        return value

    return allowed


def array(words: str, least: int = 0, most: int | None = None, *, stop: bool = True) -> Must:
    """Require an array, for ``tuple[…, ...]`` and ``frozenset[…]``.

    Args:
        most: the largest number of values; None for no bound but that of the file.
        stop: whether to stop at the first wrong value. A file of 8 MiB can hold four million of
            them.
    """

    def bounded(value: object) -> object:
        # Checked before the values, since pydantic counts only valid ones.
        if isinstance(value, list) and not least <= len(value) <= (most or len(value)):
            raise ValueError
        return value

    return Must(
        words,
        lambda core, inner: core.no_info_before_validator_function(
            bounded, {**inner(), "fail_fast": stop}
        ),
    )


def table_or(words: str, table: type, short: Callable[[object], bool]) -> Must:
    """Require a table, or a short form, which is left as it is.

    Args:
        short: whether a value is such a short form.
    """
    return Must(
        words,
        lambda core, inner: core.no_info_wrap_validator_function(
            lambda value, handler: value if short(value) else handler(value), inner()
        ),
        table,
    )


def secret(words: str) -> Must:
    """Mark a value that messages must not repeat."""
    return Must(words, lambda _, inner: inner(), secret=True)


_UNITS: Final = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,3})?) ?(KiB|MiB|GiB|TiB)?")


def _bytes(value: object) -> object:
    """Convert a size with its unit, or a variable's text, to bytes."""
    if not isinstance(value, str):
        return value
    if (found := _SIZE.fullmatch(value)) is None:
        raise ValueError
    return int(float(found[1]) * _UNITS[found[2]])


#: More than the cores of a machine are of no use.
_MAX_WORKERS: Final = 64


def _processes(value: object) -> object:
    """Convert ``auto``, or a flag's text, to a number."""
    if value == "auto":
        from partway.gateway.configuration.usable_cpus import usable_cpus

        return min(_MAX_WORKERS, usable_cpus())
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    return value


def _path(value: object, handler: Callable[[object], str]) -> Path:
    """Return a path from a file, or from a flag, which argparse has converted already."""
    if isinstance(value, Path):
        return value
    if not (name := handler(value)):
        raise ValueError
    return Path(name)


Flag = Annotated[bool, Must("true or false", lambda core, _: core.bool_schema(strict=True))]
Strings = Annotated[frozenset[str], array("an array of strings")]
Size = Annotated[
    int,
    Must(
        "a whole number of bytes above 0, or a size in KiB, MiB, GiB or TiB, such as 2GiB; at most "
        "1024TiB",
        lambda core, _: core.no_info_before_validator_function(
            _bytes, core.int_schema(strict=True, ge=1, le=1024 * _UNITS["TiB"])
        ),
    ),
]


#: Processes of a gateway.
Workers = Annotated[
    int,
    Must(
        f"a whole number of processes from 1 to {_MAX_WORKERS}, or auto: one for each CPU",
        lambda core, _: core.no_info_before_validator_function(
            _processes, core.int_schema(strict=True, ge=1, le=_MAX_WORKERS)
        ),
    ),
]


def _path_of(what: str) -> Must:
    return Must(
        f"a {what}'s path",
        lambda core, _: core.no_info_wrap_validator_function(_path, core.str_schema()),
    )


FilePath = Annotated[Path, _path_of("file")]
FolderPath = Annotated[Path, _path_of("folder")]
#: A moment with a time zone.
Moment = Annotated[
    datetime,
    Must(
        "a date and time with its zone, such as 2026-12-01T00:00:00Z",
        lambda core, _: core.datetime_schema(strict=True, tz_constraint="aware"),
    ),
]


# --- Reading types -------------------------------------------------------------------------------


def taken_apart(hint: Any) -> tuple[Any, Must | None]:
    """Split a type into its bare type and its note: ``Annotated[int, …] | None`` gives ``int``."""
    if get_origin(hint) in (Union, UnionType):
        kinds = [each for each in get_args(hint) if each is not NoneType]
        if len(kinds) == 1:
            return taken_apart(kinds[0])
    if get_origin(hint) is Annotated:
        kind, *notes = get_args(hint)
        return kind, next((each for each in notes if isinstance(each, Must)), None)
    return hint, None


def words_of(hint: Any) -> str:
    """Return the constraint of a type: it completes "it must be …".

    Raises:
        TypeError: the type lacks a note; see the module docstring.
    """
    kind, note = taken_apart(hint)
    if note is not None:
        return note.words
    if kind is str:
        return "a string"
    if get_origin(kind) is Literal:
        *others, last = map(repr, get_args(kind))
        return f"{', '.join(others)} or {last}" if others else last
    if dataclasses.is_dataclass(kind) or get_origin(kind) is dict:
        return "a table"
    raise TypeError(f"{hint} needs a note beside it: what must its value be?")


def keys_of(hint: Any) -> dict[str, Any] | None:
    """Return the types of a table's keys; None for other types and tables with users' names."""
    return _keys_of(hint)


@cache  # a file may have thousands of faults, each with a lookup
def _keys_of(hint: Any) -> dict[str, Any] | None:
    kind, note = taken_apart(hint)
    if note is not None and note.table is not None:
        kind = note.table
    if not dataclasses.is_dataclass(kind):
        return None
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}


def parts_of(hint: Any) -> tuple[Any, ...]:
    """Return the types of a map's names and values, or of an array's values; empty for others."""
    kind, _ = taken_apart(hint)
    if get_origin(kind) in (dict, tuple, frozenset):
        return tuple(each for each in get_args(kind) if each is not Ellipsis)
    return ()


class ValueCheck(Protocol):
    def validate_python(self, value: object, /) -> Any:
        """Convert a value to its type; raise ``pydantic_core.ValidationError`` if it is invalid."""


@cache
def adapter(hint: Any) -> ValueCheck:
    """Return pydantic's check of ``[value]``; unknown keys of a table are refused.

    It checks a list, since a dataclass cannot be configured from outside, but takes its
    configuration from the type around it. A value of a flag or a variable is checked by pydantic's
    core alone, whose import takes a quarter of the time.

    Raises:
        TypeError: a type lacks a note.
    """
    _complete(hint)
    if _stands_alone(hint):
        from pydantic_core import SchemaValidator, core_schema

        return SchemaValidator(core_schema.list_schema(_schema_of(hint)))

    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(list[hint], config=ConfigDict(extra="forbid"))


def _stands_alone(hint: Any) -> bool:
    """Say whether a type is a string, one of some values, or completely described by its note."""
    if parts_of(hint) or keys_of(hint) is not None:
        return False
    kind, note = taken_apart(hint)
    return kind is str or get_origin(kind) is Literal or not (note is None or note.secret)


def _schema_of(hint: Any) -> CoreSchema:
    """Return the schema that pydantic would make of such a type."""
    from pydantic_core import core_schema

    kind, note = taken_apart(hint)

    def bare() -> CoreSchema:
        if get_origin(kind) is Literal:
            return core_schema.literal_schema(list(get_args(kind)))
        return core_schema.str_schema()

    schema = bare() if note is None else note.schema(core_schema, bare)
    is_optional = get_origin(hint) in (Union, UnionType)
    return core_schema.nullable_schema(schema) if is_optional else schema


def _complete(hint: Any) -> None:
    words_of(hint)
    for each in (*parts_of(hint), *(keys_of(hint) or {}).values()):
        _complete(each)
