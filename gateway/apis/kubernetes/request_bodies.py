"""Parsing of request bodies: whole objects and JSON merge patches (RFC 7386)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.apis.aws_json.bodies import members_of
from partway.gateway.apis.kubernetes.errors import PatchTypeUnsupported
from partway.gateway.plain_text import cut, safe
from partway.protocol.http.content_types import media_type_of

_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_SHOWN: Final = 64


def read_object(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the object in a request's body.

    Raises:
        PatchTypeUnsupported: the body is not JSON, but for example YAML or Kubernetes' protobuf.
        SerializationException: the body cannot be parsed.
    """
    if media_type_of(content_type) not in ("", _JSON):
        raise _unsupported(content_type, _JSON)
    return members_of(body)


def read_merge_patch(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the merge patch in a request's body.

    Raises:
        PatchTypeUnsupported: the body is a patch of another type.
        SerializationException: the body cannot be parsed.
    """
    kind = media_type_of(content_type)
    match kind:
        case "application/merge-patch+json":
            return members_of(body)
        case "application/json-patch+json":
            raise PatchTypeUnsupported(
                f"JSON patch ({kind}) is not supported: use kubectl patch --type=merge "
                f"({_MERGE_PATCH})"
            )
        case "application/apply-patch+yaml" | "application/apply-patch+cbor":
            raise PatchTypeUnsupported(
                f"server-side apply ({kind}) is not supported: "
                "use kubectl apply without --server-side"
            )
        case _:
            raise _unsupported(content_type, _MERGE_PATCH)


def merged(live: Any, patch: Any) -> Any:
    """Apply a merge patch to a value (RFC 7386); both have a bounded depth."""
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
