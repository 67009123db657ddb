"""Constraints of an answer's form: JSON, or JSON of a schema; as text of llguidance's grammars.

https://github.com/guidance-ai/llguidance/blob/main/docs/syntax.md
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from partway.container.models.text.request_members import Refused, is_number, quoted, string_of
from partway.protocol.limits import KIB

#: Most bytes of one schema.
MAX_SCHEMA_BYTES: Final = 64 * KIB

#: Limit of the least common multiple of a schema's ``multipleOf``. llguidance keeps a state for
#: each remainder, or for each combination of several. None of its own limits counts these states.
MAX_COMMON_MULTIPLE: Final = 10_000

#: White space between two tokens of JSON. Without a bound a small model may write nothing else.
_WHITE_SPACE: Final = r"[ \t\r\n]{0,16}"

_FORMATS: Final = "text, json_object or json_schema"


@dataclass(frozen=True, slots=True)
class Constraint:
    """The form that an answer must have.

    Attributes:
        member: the request's member that asks for the form, for reasons.
        grammar: the form, in llguidance's variant of Lark.
    """

    member: str
    grammar: str


def constraint_of(response_format: object) -> Constraint | None:
    """Parse ``response_format`` as OpenAI's API has it; None for plain text.

    Raises:
        Refused: its type is unknown, or the schema is no object or too large.
    """
    member = "response_format"
    if not isinstance(response_format, dict):
        raise Refused(f"{member}: must be an object with the type {_FORMATS}")
    kind = string_of(f"{member}.type", response_format.get("type"))
    if kind == "text":
        return None
    if kind == "json_object":
        return Constraint(member, f"start: {json_rule(member, {'type': 'object'})}")
    if kind != "json_schema":
        raise Refused(f"{member}: the type is {quoted(kind)}; it must be {_FORMATS}")
    described = response_format.get("json_schema")
    if not isinstance(described, dict):
        raise Refused(f"{member}.json_schema: must be an object with name and schema")
    schema = described.get("schema")
    if schema is None:
        schema = {"type": "object"}
    return Constraint(member, f"start: {json_rule(f'{member}.json_schema.schema', schema)}")


def json_rule(name: str, schema: object) -> str:
    """Return the part of a grammar that is JSON of a schema.

    Raises:
        Refused: the schema is no object, or too large, or counts in too many steps.
    """
    if not isinstance(schema, Mapping):
        raise Refused(f"{name}: must be a JSON schema, as an object")
    try:
        written = json.dumps({**schema, "x-guidance": {"whitespace_pattern": _WHITE_SPACE}})
    except RecursionError:
        raise Refused(f"{name}: is nested too deep") from None
    if len(written) > MAX_SCHEMA_BYTES:
        raise Refused(f"{name}: must have at most {MAX_SCHEMA_BYTES} bytes")
    _check_multiples(name, schema)
    return f"%json {written}"


def _check_multiples(name: str, schema: Mapping[str, object]) -> None:
    common = 1
    for step in _multiples(schema):
        _, digits, exponent = Decimal(str(step)).as_tuple()
        assert isinstance(exponent, int), "JSON has neither NaN nor infinity"
        # A decimal counts in its last place: 0.25 has as many remainders as 25.
        if exponent > len(str(MAX_COMMON_MULTIPLE)):
            common = MAX_COMMON_MULTIPLE + 1
        else:
            whole = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
            common = math.lcm(common, whole or 1)
        if common > MAX_COMMON_MULTIPLE:
            raise Refused(
                f"{name}: the least common multiple of all multipleOf must be at most "
                f"{MAX_COMMON_MULTIPLE}"
            )


def _multiples(schema: Mapping[str, object]) -> Iterator[int | float]:
    unseen: list[object] = [schema]
    while unseen:
        value = unseen.pop()
        if isinstance(value, Mapping):
            step = value.get("multipleOf")
            if is_number(step):
                yield step
            unseen += value.values()
        elif isinstance(value, list):
            unseen += value
