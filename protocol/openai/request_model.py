"""The model that a request of OpenAI's API names: in a JSON body, a form or a query.

The name can be taken out: the rest of the request keeps its bytes, and the model becomes empty.
vLLM refuses a name that it does not serve, and takes an empty one.
"""

from __future__ import annotations

import json
from email.errors import HeaderParseError
from email.parser import BytesHeaderParser
from email.policy import HTTP
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from partway.protocol.json.splicing import members_of

if TYPE_CHECKING:
    import msgspec

#: A form that is searched for a model: fields, and bytes of a field's head. OpenAI's requests have
#: about ten fields; a field's head takes 50 µs to read.
MAX_FORM_FIELDS: Final = 128
MAX_FORM_HEAD_BYTES: Final = 4096

_MEMBER: Final = "model"
_MISSING: Final = "model: it is missing; it must name an endpoint"


class ModelUnknown(ValueError):
    """A request's model cannot be read; the message says why."""


class Taken(NamedTuple):
    """A request without its model.

    Attributes:
        model: the name; never empty.
        rest: the body or the query with an empty model.
    """

    model: str
    rest: bytes


def from_json(body: bytes) -> Taken:
    """Take the model out of a JSON object; the other members keep their texts.

    Raises:
        ModelUnknown: the body is no object, or its ``model`` is no string or empty.
    """
    import msgspec  # it takes 10 ms

    try:
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        members = _by_the_standard_library(body, error)
    given = members.get(_MEMBER)
    if given is None:
        raise ModelUnknown(_MISSING)
    model = json.loads(bytes(given))
    if not isinstance(model, str):
        raise ModelUnknown(f"model: {str(model)[:64]} was given; it must be a string")
    members[_MEMBER] = msgspec.Raw(b'""')
    return Taken(_named(model), msgspec.json.encode(members))


def _by_the_standard_library(body: bytes, fault: Exception) -> dict[str, msgspec.Raw]:
    """Read the members of a text that msgspec refuses: it may have half of a surrogate pair."""
    import msgspec

    try:
        is_object = isinstance(json.loads(body), dict)
    except (ValueError, RecursionError):
        is_object = False
    if not is_object:
        raise ModelUnknown(f"the body must be a JSON object: {fault}") from None
    return {name: msgspec.Raw(bytes(value)) for name, value in members_of(body).items()}


def from_form(body: bytes, content_type: str) -> Taken:
    """Take the model out of a form (RFC 7578); the other fields keep their bytes.

    Args:
        body: the whole body.
        content_type: the request's, with the boundary.

    Raises:
        ModelUnknown: the form is malformed, or has no ``model`` or several.
    """
    boundary = _header(b"Content-Type", content_type.encode("latin-1", "replace"), "boundary")
    if not boundary or len(boundary) > 70:  # RFC 2046 §5.1.1
        raise ModelUnknown("Content-Type: it must have a boundary of 1 to 70 characters")
    delimiter = b"\r\n--" + boundary.encode("latin-1", "replace")
    found: list[tuple[int, int]] = []
    fields = 0
    # The first delimiter may lack the line end in front of it.
    begin = 0 if body.startswith(delimiter[2:]) else body.find(delimiter) + 2
    if begin == 1:
        raise ModelUnknown("the form must have the boundary that Content-Type names")
    while True:
        begin += len(delimiter) - 2
        if body.startswith(b"--", begin):
            break
        end = body.find(delimiter, begin)
        content = body.find(b"\r\n\r\n", begin, end)
        if end < 0 or content < 0:
            raise ModelUnknown("the form must end with its boundary, and each field have a head")
        fields += 1
        if fields > MAX_FORM_FIELDS or content - begin > MAX_FORM_HEAD_BYTES:
            raise ModelUnknown(
                f"the form must have at most {MAX_FORM_FIELDS} fields, each with a head of at most "
                f"{MAX_FORM_HEAD_BYTES} bytes"
            )
        if _field(body[begin:content]) == _MEMBER:
            found.append((content + 4, end))
        begin = end + 2
    if not found:
        raise ModelUnknown(_MISSING)
    if len(found) > 1:
        raise ModelUnknown(f"model: it was given {len(found)} times; it must be given once")
    ((content, end),) = found
    model = body[content:end].decode("utf-8", "replace")
    return Taken(_named(model), body[:content] + body[end:])


def from_query(query: str) -> Taken:
    """Take the model out of a query; the other parameters keep their bytes.

    Raises:
        ModelUnknown: the query has no ``model``, or several.
    """
    pairs = query.split("&")
    found = [pair for pair in pairs if unquote_plus(pair.partition("=")[0]) == _MEMBER]
    if not found:
        raise ModelUnknown(_MISSING)
    if len(found) > 1:
        raise ModelUnknown(f"model: it was given {len(found)} times; it must be given once")
    model = unquote_plus(found[0].partition("=")[2])
    rest = "&".join(f"{_MEMBER}=" if pair == found[0] else pair for pair in pairs)
    return Taken(_named(model), rest.encode())


def _named(model: str) -> str:
    if not model:
        raise ModelUnknown("model: it is empty; it must name an endpoint")
    return model


def _field(head: bytes) -> str:
    """Return the name of a form's field; empty if its head does not say."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-disposition":
            return _header(b"Content-Disposition", value, "name")
    return ""


def _header(name: bytes, value: bytes, parameter: str) -> str:
    """Return a header's parameter; empty without one."""
    try:
        header = BytesHeaderParser(policy=HTTP).parsebytes(name + b": " + value.strip() + b"\r\n")
        found = header[name.decode()].params.get(parameter, "")
    except (HeaderParseError, AttributeError, ValueError, IndexError):
        return ""
    return str(found)
