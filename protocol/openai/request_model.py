"""The model that a request of OpenAI's API names: in a JSON body, a form or a query.

The name can be taken out: the rest of the request keeps its bytes, and the model becomes empty.
vLLM refuses a name that it does not serve, and takes an empty one.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_plus

from partway.protocol.openai.json_members import BodyFault, members_of_body

if TYPE_CHECKING:
    import msgspec

#: Characters of a model's text in JSON: an endpoint's name has 63.
MAX_MODEL_TEXT: Final = 1024

#: A form: fields, bytes of a field's head, and characters of the Content-Type. OpenAI's requests
#: have about ten fields, with heads of about 100 bytes.
MAX_FORM_FIELDS: Final = 128
MAX_FORM_HEAD_BYTES: Final = 1024
_MAX_CONTENT_TYPE: Final = 1024

#: A parameter of a header, quoted or not (RFC 9110 §5.6.6).
_PARAMETER: Final = re.compile(r'\s*;\s*([^\s=;"]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;"]*))')

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
    try:
        return _from_members(members_of_body(body))
    except BodyFault as fault:
        raise ModelUnknown(str(fault)) from None


def _from_members(members: dict[str, msgspec.Raw]) -> Taken:
    import msgspec

    given = members.get(_MEMBER)
    if given is None:
        raise ModelUnknown(_MISSING)
    text = bytes(given)
    if not text.startswith(b'"') or len(text) > MAX_MODEL_TEXT:
        shown = text[:32].decode("utf-8", "replace")
        raise ModelUnknown(f"model: {shown} was given; it must be a string, an endpoint's name")
    members[_MEMBER] = msgspec.Raw(b'""')
    return Taken(_named(json.loads(text)), msgspec.json.encode(members))


def from_form(body: bytes, content_type: str) -> Taken:
    """Take the model out of a form (RFC 7578); the other fields keep their bytes.

    Args:
        body: the whole body.
        content_type: the request's, with the boundary.

    Raises:
        ModelUnknown: the form is malformed, or has no ``model`` or several.
    """
    boundary = _parameter(content_type[:_MAX_CONTENT_TYPE], "boundary")
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
        if _field(body[begin:content].decode("latin-1")) == _MEMBER:
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


def _field(head: str) -> str:
    """Return the name of a form's field; empty if its head does not say."""
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition":
            return _parameter(value, "name")
    return ""


def _parameter(value: str, wanted: str) -> str:
    """Return a header's parameter; empty without one."""
    at = value.find(";")
    while at >= 0 and (found := _PARAMETER.match(value, at)) is not None:
        if found[1].lower() == wanted:
            return found[3] if found[2] is None else re.sub(r"\\(.)", r"\1", found[2])
        at = found.end()
    return ""
