"""Bodies of changes: whole objects, JSON merge patches (RFC 7386), and what kubectl applies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.control.json_bodies import members_of
from partway.gateway.kubernetes.errors import BadKubernetesRequest, PatchTypeUnsupported
from partway.gateway.plain_text import cut, safe

MERGE_PATCH: Final = "application/merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_JSON: Final = "application/json"
_SHOWN: Final = 64

#: Refusals of the patches that kubectl can send in other types, by those types.
_INSTEAD: Final[Mapping[str, str]] = {
    "application/json-patch+json": (
        "the body is a JSON patch (application/json-patch+json), which is not supported: "
        f"use kubectl patch --type=merge ({MERGE_PATCH})"
    ),
}


def media_type(content_type: str) -> str:
    """A media type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read_object(content_type: str, body: bytes) -> dict[str, Any]:
    """The object that a request's body is.

    Raises:
        PatchTypeUnsupported: it is not JSON, such as YAML, or Kubernetes' protobuf.
        SerializationException: it cannot be read.
    """
    if media_type(content_type) not in ("", _JSON):
        raise _unsupported(content_type, _JSON)
    return members_of(body)


def read_merge_patch(content_type: str, body: bytes) -> dict[str, Any]:
    """The merge patch that a request's body is.

    Raises:
        PatchTypeUnsupported: it is a patch of another type.
        SerializationException: it cannot be read.
    """
    kind = media_type(content_type)
    if kind in _INSTEAD:
        raise PatchTypeUnsupported(_INSTEAD[kind])
    if kind != MERGE_PATCH:
        raise _unsupported(content_type, MERGE_PATCH)
    return members_of(body)


def applied_object(patch: bytes) -> dict[str, Any]:
    """The object that is applied on the server's side: YAML, of which JSON alone is read.

    Raises:
        PatchTypeUnsupported: it is YAML that is not JSON.
        SerializationException: it cannot be read.
        BadKubernetesRequest: what its fields would be in is no object.
    """
    if not patch.lstrip().startswith(b"{"):
        raise PatchTypeUnsupported(
            f"the body of {APPLY_PATCH} must be JSON, which is YAML too; kubectl sends it so"
        )
    applied = members_of(patch)
    for member in ("metadata", "spec"):
        if not isinstance(applied.get(member, {}), dict):
            raise BadKubernetesRequest(f"{member}: it must be an object, or left out")
    return applied


def merged(live: Any, patch: Any) -> Any:
    """What RFC 7386 makes of a value; both have a bounded depth."""
    if not isinstance(patch, dict):
        return patch
    result = dict(live) if isinstance(live, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def _unsupported(content_type: str, supported: str) -> PatchTypeUnsupported:
    shown = cut(safe(content_type), _SHOWN)
    return PatchTypeUnsupported(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"{supported}; Content-Type is {shown!r}"
    )
