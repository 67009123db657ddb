"""The outermost members of a request's JSON body; the others keep their bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from partway.protocol.json.splicing import members_of
from partway.protocol.limits import KIB

if TYPE_CHECKING:
    import msgspec

#: Members of all objects of a body, as far as they can be counted quickly. Each of the outermost
#: becomes an object, which takes about 0.3 µs.
MAX_MEMBERS: Final = 200_000

#: A body that msgspec refuses: the standard library makes objects of all its values.
_MAX_FOR_STANDARD_LIBRARY: Final = 64 * KIB

_NAME_END: Final = re.compile(rb'"[ \t\r\n]*:')


class BodyFault(ValueError):
    """A body is not a JSON object; the message says why."""


def members_of_body(body: bytes) -> dict[str, msgspec.Raw]:
    """Return the texts of a JSON object's members; of a repeated one the last.

    Raises:
        BodyFault: the body is not a JSON object in UTF-8, or has too many members.
    """
    import msgspec  # it takes 10 ms

    if next(islice(_NAME_END.finditer(body), MAX_MEMBERS, None), None) is not None:
        raise BodyFault(f"the body must have at most {MAX_MEMBERS} members")
    try:
        return msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        fault = str(error)
    except RecursionError:
        raise BodyFault("the body's JSON is nested too deep") from None
    # The text may have half of a surrogate pair, which msgspec refuses.
    try:
        is_object = len(body) <= _MAX_FOR_STANDARD_LIBRARY and isinstance(json.loads(body), dict)
        found = members_of(body) if is_object and body.lstrip().startswith(b"{") else None
    except (ValueError, RecursionError):
        found = None
    if found is None:
        raise BodyFault(f"the body must be a JSON object in UTF-8: {fault}")
    return {name: msgspec.Raw(bytes(value)) for name, value in found.items()}


def with_members(
    body: bytes, always: Mapping[str, object], if_empty: Mapping[str, object]
) -> bytes:
    """Return a JSON object with further members.

    Args:
        body: the object.
        always: members that replace the body's own.
        if_empty: members for those that are missing, null or an empty string.

    Raises:
        BodyFault: as :func:`members_of_body`.
    """
    import msgspec

    members = members_of_body(body)
    for name, value in if_empty.items():
        if name not in members or bytes(members[name]) in (b"null", b'""'):
            members[name] = msgspec.Raw(json.dumps(value).encode())
    for name, value in always.items():
        members[name] = msgspec.Raw(json.dumps(value).encode())
    return msgspec.json.encode(members)
