"""Validation of inputs against shapes, in the words of AWS's ``ValidationException``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Any, Final

from partway.gateway.apis.aws_json.shapes import Form, ServiceShapes, Shape
from partway.gateway.apis.control.errors import SerializationException, ValidationException
from partway.gateway.apis.control.limits import MAX_PATTERN_TEXT
from partway.gateway.plain_text import cut, safe

#: Characters of a value that an error repeats, and faults that one error names.
_SHOWN: Final = 1024
_FAULTS: Final = 100

#: Values of a large enumeration that an error names.
_VALUES_SHOWN: Final = 8

#: Members that name places to write to.
_WRITTEN: Final = frozenset({"s3OutputPath", "s3FailurePath"})

#: Epoch seconds of the years 1 to 9999, the range of Python and botocore.
_EARLIEST: Final = -62_135_596_800
_LATEST: Final = 253_402_300_800

_LARGEST: Final = sys.float_info.max

#: AWS's names of types.
_TYPES: Final[Mapping[Form, str]] = {
    "structure": "Structure",
    "list": "List",
    "map": "Map",
    "string": "String",
    "integer": "Integer",
    "number": "Float",
    "boolean": "Boolean",
    "timestamp": "Timestamp",
}

#: Whether a path of this machine is allowed where a place in S3 is expected.
LocalRule = Callable[[str], bool]


def no_local_paths(_: str) -> bool:
    return False


class CheckedInputs:
    """Checks the inputs of a service's operations.

    Args:
        is_local: whether a path, or a ``file://`` URL, may stand for a place in S3.
    """

    def __init__(self, shapes: ServiceShapes, is_local: LocalRule = no_local_paths) -> None:
        self._shapes = shapes
        self._is_local = is_local

    async def checked(self, operation: str, members: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the members of an operation's input, without members that are null.

        Raises:
            SerializationException: a value has another type than its shape.
            ValidationException: a value is not allowed; the message names it and the constraint.
        """
        shape = await self._shapes.input_of(operation)
        return checked_by(shape, members, self._is_local)


def checked_by(
    shape: Shape, members: Mapping[str, Any], is_local: LocalRule = no_local_paths
) -> dict[str, Any]:
    """Return the members of a structure by its shape, without members that are null.

    Args:
        is_local: whether a path may stand for a place in S3.

    Raises:
        SerializationException: a value has another type than its shape.
        ValidationException: a value is not allowed; the message names it and the constraint.
    """
    walk = _Walk(is_local)
    checked = walk.structure(shape, members, "")
    if walk.faults:
        many = len(walk.faults)
        raise ValidationException(
            f"{many} validation error{'s'[: many > 1]} detected: {'; '.join(walk.faults)}"
        )
    return checked


class _Walk:
    """One pass over an input, which collects all faults."""

    def __init__(self, is_local: LocalRule) -> None:
        self._is_local = is_local
        self.faults: list[str] = []

    def structure(self, shape: Shape, given: Mapping[str, Any], path: str) -> dict[str, Any]:
        members = {name: value for name, value in given.items() if value is not None}
        for name in members.keys() - shape.members.keys():
            # AWS ignores an unknown member. Here it comes from a newer SDK, and asks for something.
            self._fault(_below(path, name), "Member must be one that this gateway knows")
        for name in shape.required:
            if name not in members:
                self._fault(_below(path, name), "Member must not be null", "null")
        if shape.is_union and len(members) != 1:
            self._fault(path, f"Member must have exactly one of: {', '.join(shape.members)}")
        return {
            name: self._value(member, members[name], _below(path, name))
            for name, member in shape.members.items()
            if name in members
        }

    def _value(self, shape: Shape, value: Any, path: str) -> Any:
        _check_type(shape, value, path)
        match shape.form:
            case "structure":
                return self.structure(shape, value, path)
            case "list":
                return self._list(shape, value, path)
            case "map":
                return self._map(shape, value, path)
        for broken in self._broken(shape, value):
            self._fault(path, broken + _hint(shape, value, path), f"'{_shown(value)}'")
        return int(value) if shape.form == "integer" else value

    def _list(self, shape: Shape, values: list[Any], path: str) -> list[Any]:
        if not self._has_length(shape, values, path):
            return values
        assert shape.item is not None
        if shape.item.form in ("structure", "list", "map"):
            return [
                self._value(shape.item, value, f"{path}.{number}.member")
                for number, value in enumerate(values, 1)
            ]
        if not self._all_hold(shape.item, values, path):
            self._fault(path, f"Member must satisfy constraint: {_constraints(shape.item)}")
        return values

    def _map(self, shape: Shape, values: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        present = {key: value for key, value in values.items() if value is not None}
        if not self._has_length(shape, present, path):
            return present
        assert shape.key is not None
        assert shape.item is not None
        # Errors repeat no values: those of an environment may be secrets.
        if not self._all_hold(shape.key, present, path):
            self._fault(path, f"Map keys must satisfy constraint: {_constraints(shape.key)}")
        if shape.item.form in ("structure", "list", "map"):
            return {
                key: self._value(shape.item, value, f"{path}.{key}.member")
                for key, value in present.items()
            }
        if not self._all_hold(shape.item, present.values(), path):
            self._fault(path, f"Map value must satisfy constraint: {_constraints(shape.item)}")
        return present

    def _all_hold(self, shape: Shape, values: Any, path: str) -> bool:
        """Whether all of these values, which contain no others, are allowed."""
        for value in values:
            _check_type(shape, value, path)
        return not any(broken for value in values for broken in self._broken(shape, value))

    def _has_length(self, shape: Shape, values: Any, path: str) -> bool:
        """Whether the number of values is allowed; if there are too many, they are not checked."""
        wrong = list(_out_of_range(shape, len(values), "length"))
        for broken in wrong:
            self._fault(path, broken)
        return not wrong

    def _broken(self, shape: Shape, value: Any) -> Iterator[str]:
        """Yield the constraints that a value without inner values breaks."""
        if shape.form == "string":
            yield from _out_of_range(shape, len(value), "length")
            if shape.values and value not in shape.values:
                yield _one_of(shape, value)
            if shape.pattern is not None and not self._matches(shape, value):
                yield _as_written(shape)
        elif shape.form in ("integer", "number"):
            yield from _out_of_range(shape, value, "value")

    def _matches(self, shape: Shape, value: str) -> bool:
        """Whether a string matches its pattern; a far too long string is not tried."""
        assert shape.pattern is not None
        if shape.is_location and value.startswith(("/", "file:")) and self._is_local(value):
            return True
        return len(value) <= MAX_PATTERN_TEXT and shape.pattern.fullmatch(value) is not None

    def _fault(self, path: str, constraint: str, shown: str = "") -> None:
        if len(self.faults) < _FAULTS:
            value = f"Value {shown} at" if shown else "Value at"
            self.faults.append(f"{value} '{path}' failed to satisfy constraint: {constraint}")


def _check_type(shape: Shape, value: Any, path: str) -> None:
    """Raise SerializationException if a value's JSON type does not fit its shape."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    # Python cannot convert a larger integer to float, not even to check that it is finite.
    finite = number and -_LARGEST <= value <= _LARGEST
    match shape.form:
        case "structure" | "map":
            right = isinstance(value, dict)
        case "list":
            right = isinstance(value, list)
        case "string":
            right = isinstance(value, str)
        case "boolean":
            right = isinstance(value, bool)
        case "integer":
            right = finite and value == int(value)
            right = right and (not shape.bound or -shape.bound <= value < shape.bound)
        case "number":
            right = finite
        case "timestamp":
            right = finite and _EARLIEST <= value < _LATEST
    if not right:
        raise SerializationException(
            f"{_found(value)} can not be converted to {_TYPES[shape.form]} at '{path}'"
        )


def _found(value: Any) -> str:
    match value:
        case None:
            return "NULL_VALUE"
        case bool():
            return "BOOLEAN_VALUE"
        case str():
            return "STRING_VALUE"
        case list():
            return "START_ARRAY"
        case dict():
            return "START_OBJECT"
        case _:
            return "NUMBER_VALUE"


def _out_of_range(shape: Shape, measured: float, what: str) -> Iterator[str]:
    if shape.least is not None and measured < shape.least:
        yield _at_least(shape.least, what)
    if shape.most is not None and measured > shape.most:
        yield _at_most(shape.most, what)


def _constraints(shape: Shape) -> str:
    """Return all constraints of a value without inner values, as AWS lists them."""
    what = "length" if shape.form == "string" else "value"
    listed = []
    if shape.most is not None:
        listed.append(_at_most(shape.most, what))
    if shape.least is not None:
        listed.append(_at_least(shape.least, what))
    if shape.values:
        listed.append(_one_of(shape))
    if shape.pattern is not None:
        listed.append(_as_written(shape))
    return f"[{', '.join(listed)}]"


def _at_least(least: float, what: str) -> str:
    return f"Member must have {what} greater than or equal to {least:g}"


def _at_most(most: float, what: str) -> str:
    return f"Member must have {what} less than or equal to {most:g}"


def _one_of(shape: Shape, value: str = "") -> str:
    """Return an enumeration's constraint; a long one names the values most like the given one."""
    shown = list(shape.values)
    more = len(shown) - _VALUES_SHOWN
    if more > 0:
        shown.sort(key=lambda each: -_common(each, value))
        shown[_VALUES_SHOWN:] = [f"and {more} more"]
    return f"Member must satisfy enum value set: [{', '.join(shown)}]"


def _common(one: str, other: str) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _hint(shape: Shape, value: Any, path: str) -> str:
    """Return the rule for paths of this machine, if a path was given for a place in S3."""
    if not shape.is_location or ("://" in value and not value.startswith("file:")):
        return ""
    name = path.rpartition(".")[2]
    setting = "local_results" if name in _WRITTEN else "local_roots"
    return (
        f" (a path must be below one of the {setting} under [api] in the gateway's settings, "
        "and outside the gateway's own files)"
    )


def _as_written(shape: Shape) -> str:
    return f"Member must satisfy regular expression pattern: {shape.written}"


def _below(path: str, name: str) -> str:
    """Return the path of a member as AWS writes it, with a small first letter."""
    own = cut(safe(name[:1].lower() + name[1:]), _SHOWN)
    return f"{path}.{own}" if path else own


def _shown(value: Any) -> str:
    return cut(safe(str(value)), _SHOWN)
