"""Patches: JSON merge patches (RFC 7386), JSON patches (RFC 6902), and what kubectl applies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.control.json_bodies import members_of, values_of
from partway.gateway.kubernetes.errors import (
    BadKubernetesRequest,
    InvalidObject,
    PatchTypeUnsupported,
)
from partway.gateway.kubernetes.limits import MAX_PATCH_OPERATIONS
from partway.gateway.plain_text import cut, safe

MERGE_PATCH: Final = "application/merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_JSON: Final = "application/json"
_SHOWN: Final = 64

#: Operations of RFC 6902 that are done. ``copy`` would double an object with each of them.
_OPERATIONS: Final = frozenset({"add", "remove", "replace", "move", "test"})


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


def patched(content_type: str, patch: bytes, live: Mapping[str, Any]) -> dict[str, Any]:
    """What a patch makes of an object.

    Args:
        content_type: of the patch: a merge patch's, or a JSON patch's.
        patch: as it was sent.
        live: the object.

    Raises:
        PatchTypeUnsupported: it is a patch of another type.
        SerializationException: it cannot be read.
        InvalidObject: it does not fit the object.
    """
    match media_type(content_type):
        case "application/merge-patch+json":
            return dict(merged(live, members_of(patch)))
        case "application/json-patch+json":
            return _changed(live, values_of(patch))
        case _:
            raise _unsupported(content_type, MERGE_PATCH, JSON_PATCH, APPLY_PATCH)


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


def _changed(live: Mapping[str, Any], operations: Any) -> dict[str, Any]:
    from jsonpatch import JsonPatch, JsonPatchException
    from jsonpointer import JsonPointerException

    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise BadKubernetesRequest("a JSON patch must be an array of operations (RFC 6902)")
    if len(operations) > MAX_PATCH_OPERATIONS:
        raise BadKubernetesRequest(
            f"the JSON patch has {len(operations)} operations; it must have at most "
            f"{MAX_PATCH_OPERATIONS}"
        )
    for each in operations:
        op = each.get("op")
        if not isinstance(op, str) or op not in _OPERATIONS:
            raise BadKubernetesRequest(
                f"the JSON patch's op is {cut(safe(str(op)), _SHOWN)!r}; it must be "
                f"one of: {', '.join(sorted(_OPERATIONS))}"
            )
    try:
        result = JsonPatch(operations).apply(json.loads(json.dumps(live)))
        # Which is deeper than the patch where each operation goes on where the last has been.
        return members_of(json.dumps(result).encode())
    except (JsonPatchException, JsonPointerException, TypeError, RecursionError) as error:
        raise InvalidObject(f"the JSON patch does not fit: {cut(safe(str(error)), 256)}") from None


def _unsupported(content_type: str, *supported: str) -> PatchTypeUnsupported:
    shown = cut(safe(content_type), _SHOWN)
    return PatchTypeUnsupported(
        f"the body of the request was in an unknown format - accepted media types include: "
        f"{', '.join(supported)}; Content-Type is {shown!r}"
    )
