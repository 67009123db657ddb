"""What inputs of AWS's operations are made of, as botocore's files say it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

#: All characters of the category Z, which Python's patterns cannot name: in a class.
_SEPARATORS: Final = "\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

#: Letters, separators, numbers and ``_``: Python's ``\w`` is the first, third and fourth.
_TEXT: Final = (r"\p{L}\p{Z}\p{N}_", rf"\w{_SEPARATORS}")

#: What Java's full stop matches: all that ends no line.
_ANY: Final = "[^\n\r\x85\u2028\u2029]"


def compiled(pattern: str) -> re.Pattern[str]:
    r"""Return a pattern that matches what Java's does, to be used by ``fullmatch``.

    Args:
        pattern: of AWS's; of the categories of Unicode it may name only letters, separators and
            numbers, and these together.

    Raises:
        ValueError: it uses what has no equal here.
    """
    translated = pattern.replace(*_TEXT)
    # Java's \d, \s and \w are those of ASCII; only a pattern that names categories means more.
    flags = re.NOFLAG if translated != pattern else re.ASCII
    if r"\p" in translated or "&&" in translated:
        raise ValueError(f"a pattern of AWS's has no equal here: {pattern}")
    try:
        return re.compile(_dots_replaced(translated), flags)
    except re.error as error:
        raise ValueError(f"a pattern of AWS's cannot be read: {pattern}: {error}") from error


def _dots_replaced(pattern: str) -> str:
    """A pattern whose full stops match what Java's match; those in classes are characters."""
    pieces = []
    in_class = False
    for piece in re.findall(r"\\.|.", pattern, re.DOTALL):
        if piece == "[":
            in_class = True
        elif piece == "]":
            in_class = False
        pieces.append(_ANY if piece == "." and not in_class else piece)
    return "".join(pieces)


#: How a shape is written in JSON.
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

#: How patterns of places in S3 begin, of which a path of this machine may be one.
_OF_LOCATIONS: Final = ("(https|s3)://", "^(https|s3)://")

#: Numbers of 32 and of 64 bits.
_RANGES: Final = {"integer": 2**31, "long": 2**63}


@dataclass(frozen=True, slots=True)
class Shape:
    """What one value of an input must be.

    Attributes:
        form: how it is written in JSON.
        least: the smallest value of a number, the smallest length of anything else.
        most: the largest.
        pattern: what a string must match as a whole.
        written: the pattern as AWS writes it.
        values: what a string must be one of; empty for any.
        members: of a structure, by their names.
        required: those of them that must be there.
        item: of a list, or a map's value.
        key: of a map.
        is_union: whether a structure must have exactly one of its members.
        is_location: whether a string is a place in S3.
        bound: what an integer must be below, whichever its sign; 0 for none.
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

    botocore's whole model of SageMaker takes 80 ms and 41 MB; only what is asked for is kept of it.

    Args:
        service: botocore's name of it, such as ``sagemaker``.
        version: of its API, such as ``2017-07-24``.
        operations: AWS's names of those whose inputs are to be known.
    """

    def __init__(self, service: str, version: str, operations: Collection[str]) -> None:
        self._service = service
        self._version = version
        self._operations = operations
        self._inputs: Mapping[str, Shape] = {}
        self._reading = asyncio.Lock()

    async def input_of(self, operation: str) -> Shape:
        """The shape of an operation's input; read on a thread, once."""
        async with self._reading:
            if not self._inputs:
                self._inputs = await asyncio.to_thread(
                    read_inputs, self._service, self._version, tuple(self._operations)
                )
        return self._inputs[operation]


def read_inputs(service: str, version: str, operations: Iterable[str]) -> Mapping[str, Shape]:
    """Read the inputs of operations, by the operations' names.

    Only the files that botocore brings are looked at, and none of the user's.
    """
    from botocore.loaders import Loader  # whoever does not use the control plane does not pay
    from botocore.model import ServiceModel

    loader = Loader(
        extra_search_paths=[Loader.BUILTIN_DATA_PATH], include_default_search_paths=False
    )
    model = ServiceModel(loader.load_service_model(service, "service-2", version), service)
    known: dict[str, Shape] = {}
    return {name: _shape_of(model.operation_model(name).input_shape, known) for name in operations}


def _shape_of(source: Any, known: dict[str, Shape]) -> Shape:
    """A shape of botocore's as one of ours; none of those that are read contains itself."""
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
