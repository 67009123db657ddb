"""Forms with a file (RFC 7578), read by aiohttp's parser."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from multidict import CIMultiDict, CIMultiDictProxy, MultiDict

from partway.container.errors import ModelError
from partway.container.models.voice.limits import MAX_FORM_FIELD, MAX_FORM_FIELDS

if TYPE_CHECKING:
    from aiohttp import BodyPartReader, MultipartReader

_FORM: Final = "multipart/form-data"


@dataclass(slots=True)
class Form:
    """A form.

    Attributes:
        file: the content of the field ``file``; None without such a field.
        fields: the texts of the other fields.
    """

    file: bytes | None = None
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


async def read_form(content_type: str, body: bytes) -> Form:
    """Read a form from a request's body.

    Raises:
        ModelError: the body is no such form, or has too many fields; the status is 400.
    """
    if content_type.partition(";")[0].strip().lower() != _FORM:
        raise ModelError(
            f"the content type is {ascii(content_type)[:80]}; it must be {_FORM}", status=400
        )
    form = Form()
    try:
        reader = _reader(content_type, body)
        count = 0
        while (part := await reader.next()) is not None:
            count += 1
            if count > MAX_FORM_FIELDS:
                raise ModelError(
                    f"the form has over {MAX_FORM_FIELDS} fields; it may have fewer", status=400
                )
            await _take(form, part)
    except (ValueError, RuntimeError, AssertionError, EOFError) as fault:
        reason = " ".join(str(fault).split())[:120]
        raise ModelError(f"the body is no {_FORM}: {reason}", status=400) from None
    return form


async def _take(form: Form, part: MultipartReader | BodyPartReader) -> None:
    name = getattr(part, "name", None)
    if name is None:
        raise ModelError("a part of the form has no name", status=400)
    content = bytes(await part.read())  # type: ignore[union-attr]  # a nested form has no name
    if name == "file":
        form.file = content
        return
    if len(content) > MAX_FORM_FIELD:
        raise ModelError(
            f"{name[:40]} has {len(content)} bytes; it must have at most {MAX_FORM_FIELD}",
            status=400,
        )
    form.fields.add(name, content.decode("utf-8", "replace"))


def _reader(content_type: str, body: bytes) -> MultipartReader:
    from aiohttp import MultipartReader, StreamReader
    from aiohttp.base_protocol import BaseProtocol

    loop = asyncio.get_running_loop()
    stream = StreamReader(BaseProtocol(loop), len(body) + 1, loop=loop)
    stream.feed_data(body)
    stream.feed_eof()
    headers = CIMultiDictProxy(CIMultiDict({"Content-Type": content_type}))
    return MultipartReader(headers, stream)
