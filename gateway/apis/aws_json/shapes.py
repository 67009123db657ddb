"""The shapes of AWS operations' inputs, read from botocore's files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

#: All characters of the category Z, for a character class: Python's patterns cannot name the
#: category.
_SEPARATORS: Final = "\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: Letters, separators, numbers and ``_``; Python's ``\w`` is all of them but separators.
_TEXT: Final = (r"\p{L}\p{Z}\p{N}_", rf"\w{_SEPARATORS}")

#: Java's full stop matches everything except line terminators.
_ANY: Final = "[^\n\r\x85\u2028\u2029]"

Form: TypeAlias = Literal[
    "structure", "list", "map", "string", "integer", "number", "boolean", "timestamp"
]

_FORMS: Final[Mapping[str, Form]] = {
    "structure": "structure",
    "list": "list",
    "map": "map",
    "string": "string",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "timestamp": "timestamp",
}

#: Prefixes of patterns for places in S3, where a path of this machine may be allowed.
_OF_LOCATIONS: Final = ("(https|s3)://", "^(https|s3)://")

#: Bounds of 32-bit and 64-bit numbers.
_RANGES: Final = {"integer": 2**31, "long": 2**63}


def compiled(pattern: str) -> re.Pattern[str]:
    """Return a pattern that matches as Java does, for use with ``fullmatch``.

    Args:
        pattern: a pattern of AWS's. Of Unicode's categories it may name only the combination of
            letters, separators and numbers.

    Raises:
        ValueError: the pattern uses a feature that has no equal in Python.
    """
    translated = pattern.replace(*_TEXT)
    # Java's \d, \s and \w are ASCII; only a pattern that names categories means more.
    flags = re.NOFLAG if translated != pattern else re.ASCII
    if r"\p" in translated or "&&" in translated:
        raise ValueError(f"Python has no equal for AWS's pattern {pattern}")
    try:
        return re.compile(_dots_replaced(translated), flags)
    except re.error as error:
        raise ValueError(f"AWS's pattern {pattern} cannot be compiled: {error}") from error


def _dots_replaced(pattern: str) -> str:
    """Replace full stops, which match as Java's do; a full stop in a class stays."""
    pieces = []
    in_class = False
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        pieces.append(_ANY if piece == "." and not in_class else piece)
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Shape:
    """The constraints of one input value.

    Attributes:
        least: the smallest value of a number, or the smallest length of anything else.
        most: the largest value or length.
        pattern: the pattern that a whole string must match.
        written: the pattern as AWS writes it.
        values: the allowed values of a string; empty for any.
        item: the shape of a list's items, or of a map's values.
        is_union: whether a structure must have exactly one of its members.
        is_location: whether a string is a place in S3.
        bound: the bound of an integer's absolute value; 0 for none.
    """

    form: Form
    least: float | None = None
    most: float | None = None
    pattern: re.Pattern[str] | None = None
    written: str = ""
    values: tuple[str, ...] = ()
    members: Mapping[str, Shape] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    item: Shape | None = None
    key: Shape | None = None
    is_union: bool = False
    is_location: bool = False
    bound: int = 0


class ServiceShapes:
    """The inputs of some operations of one service, read at the first call.

    botocore's whole model of SageMaker takes 80 ms and 41 MB; only the needed shapes are kept.

    Args:
        service: botocore's name of the service, such as ``sagemaker``.
        version: the version of the service's API, such as ``2017-07-24``.
        operations: AWS's names of the operations whose inputs are needed.
    """

    def __init__(self, service: str, version: str, operations: Collection[str]) -> None:
        self._service = service
        self._version = version
        self._operations = operations
        self._inputs: Mapping[str, Shape] = {}
        self._reading = asyncio.Lock()

    async def input_of(self, operation: str) -> Shape:
        """Return the shape of an operation's input; all shapes are read once, on a thread."""
        async with self._reading:
            if not self._inputs:
                self._inputs = await asyncio.to_thread(
                    read_inputs, self._service, self._version, tuple(self._operations)
                )
        return self._inputs[operation]


def read_inputs(service: str, version: str, operations: Iterable[str]) -> Mapping[str, Shape]:
    """Read the inputs of operations, by the operations' names.

    Only botocore's own files are read, and no files of the user.
    """
    from botocore.loaders import Loader  # imported only if the control plane is used
    from botocore.model import ServiceModel

    loader = Loader(
        extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False
    )
    model = ServiceModel(loader.load_service_model(service, "service-2", version), service)
    known: dict[str, Shape] = {}
    return {name: _shape_of(model.operation_model(name).input_shape, known) for name in operations}


def _shape_of(source: Any, known: dict[str, Shape]) -> Shape:
    """Convert a shape of botocore's; none of the shapes that are read contains itself."""
    if source is None:
        return Shape("structure")
    if source.name not in known:
        known[source.name] = _new_shape(source, known)
    return known[source.name]


def _new_shape(source: Any, known: dict[str, Shape]) -> Shape:
    said = source.metadata
    form = _FORMS[source.type_name]
    pattern = said.get("pattern", "")
    items = {"list": "member", "map": "value"}
    return Shape(
        form,
        said.get("min"),
        said.get("max"),
        compiled(pattern) if pattern else None,
        pattern,
        tuple(said.get("enum", ())),
        {name: _shape_of(member, known) for name, member in source.members.items()}
        if form == "structure"
        else {},
        tuple(said.get("required", ())),
        _shape_of(getattr(source, items[form]), known) if form in items else None,
        _shape_of(source.key, known) if form == "map" else None,
        bool(said.get("union")),
        pattern.startswith(_OF_LOCATIONS),
        _RANGES.get(source.type_name, 0),
    )
