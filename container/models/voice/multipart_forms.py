"""Forms with a file (RFC 7578), in time that is linear in their bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from email.errors import MessageError
from email.message import Message
from email.parser import HeaderParser
from email.utils import collapse_rfc2231_value
from typing import Final

from multidict import MultiDict

from partway.container.errors import ModelError
from partway.container.models.voice.limits import (
    MAX_FORM_FIELD,
    MAX_FORM_FIELDS,
    MAX_FORM_PART_HEAD,
)
from partway.protocol.http.content_types import media_type_of

_FORM: Final = "multipart/form-data"
#: Characters of a boundary: RFC 2046, section 5.1.1.
_LONGEST_BOUNDARY: Final = 70


@dataclass(slots=True)
class Form:
    """A form.

    Attributes:
        file: the content of the field ``file``, a part of the body; None without such a field.
        fields: the texts of the other fields.
    """

    file: memoryview | None = None
    fields: MultiDict[str] = field(default_factory=MultiDict)

    @property
    def names(self) -> set[str]:
        return set(self.fields)

    def first(self, name: str) -> str:
        """Return the text of a field; empty if it is absent."""
        return self.fields.get(name, "")

    def all(self, name: str) -> list[str]:
        return self.fields.getall(name, [])

    def one_of(self, name: str, known: Sequence[str]) -> str:
        """Return the text of a field that has one of some values; empty if it is absent.

        Raises:
            ModelError: it has another value.
        """
        value = self.first(name)
        if value and value not in known:
            raise ModelError(
                f"{name} is {ascii(value)[:40]}; it must be one of {', '.join(known)}", status=400
            )
        return value


def read_form(content_type: str, body: bytes) -> Form:
    """Read a form from a request's body.

    Raises:
        ModelError: the body is no such form, or has too many fields; the status is 400.
    """
    form = Form()
    for count, (head, content) in enumerate(_parts(body, _boundary(content_type)), start=1):
        if count > MAX_FORM_FIELDS:
            raise ModelError(
                f"the form has over {MAX_FORM_FIELDS} fields; it may have fewer", status=400
            )
        name = _parameter(
            HeaderParser().parsestr(head.decode("utf-8", "replace")), "name", "Content-Disposition"
        )
        if not name:
            raise ModelError("a part of the form has no name", status=400)
        if name == "file":
            form.file = content
            continue
        if len(content) > MAX_FORM_FIELD:
            raise ModelError(
                f"{name[:40]} has {len(content)} bytes; it must have at most {MAX_FORM_FIELD}",
                status=400,
            )
        form.fields.add(name, bytes(content).decode("utf-8", "replace"))
    return form


def _boundary(content_type: str) -> bytes:
    """Return the boundary that a content type names."""
    if media_type_of(content_type) != _FORM:
        raise ModelError(
            f"the content type is {ascii(content_type)[:80]}; it must be {_FORM}", status=400
        )
    headers: Message[str, str] = Message()
    headers["Content-Type"] = content_type[:MAX_FORM_PART_HEAD]
    boundary = _parameter(headers, "boundary", "Content-Type")
    if not 1 <= len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        raise _no_form(
            f"its content type must have a boundary of 1 to {_LONGEST_BOUNDARY} ASCII characters"
        )
    return boundary.encode()


def _parts(body: bytes, boundary: bytes) -> Iterator[tuple[bytes, memoryview]]:
    """Yield the head and the content of each part.

    A preamble (RFC 2046, section 5.1.1) is refused, except the line's end that some clients send.
    """
    mark = b"--" + boundary
    at = 2 if body.startswith(b"\r\n") else 0
    if not body.startswith(mark, at):
        raise _no_form("it must begin with the boundary of its content type")
    at += len(mark)
    while not body.startswith(b"--", at):
        end = body.find(b"\r\n" + mark, at)
        if end < 0:
            raise _no_form("it ends within a part; a boundary and -- must end it")
        head_end = body.find(b"\r\n\r\n", at, min(end, at + MAX_FORM_PART_HEAD) + 2)
        if head_end < 0:
            raise _no_form(
                "a part's headers have no end; an empty line must follow them, within "
                f"{MAX_FORM_PART_HEAD} bytes"
            )
        yield body[at:head_end].lstrip(), memoryview(body)[head_end + 4 : end]
        at = end + 2 + len(mark)


def _parameter(headers: Message[str, str], name: str, header: str) -> str:
    """Return a header's parameter; empty if it is absent or cannot be read."""
    try:
        value = headers.get_param(name, "", header)
        return str(collapse_rfc2231_value(value))
    except (ValueError, LookupError, MessageError):
        return ""


def _no_form(reason: str) -> ModelError:
    return ModelError(f"the body is no {_FORM}: {reason}", status=400)
