"""Admission of objects: clients' objects are parsed, and refused if they cannot be honoured."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from partway.gateway.apis.kubernetes.custom_object import CustomKind, CustomObject, without_nulls
from partway.gateway.apis.kubernetes.errors import (
    BadKubernetesRequest,
    InvalidObject,
    ObjectConflict,
)
from partway.gateway.apis.kubernetes.schemas import (
    LABEL,
    LABEL_WORDS,
    SPECS,
    Cause,
    cause,
    fault,
    faults,
)
from partway.gateway.plain_text import cut, safe

#: RFC 1123's subdomain, and Kubernetes' names of labels and annotations.
_PREFIX: Final = r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?"
_QUALIFIED: Final = re.compile(_PREFIX + r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")

#: Members of ``metadata`` that are read; that the server sets itself, whatever a client sends; and
#: that are refused because they would have to be honoured.
_READ: Final = frozenset({"name", "namespace", "labels", "annotations", "uid", "resourceVersion"})
_OF_SERVER: Final = frozenset(
    {"creationTimestamp", "generation", "selfLink", "deletionTimestamp"}
    | {"deletionGracePeriodSeconds", "managedFields"}
)
_REFUSED: Final[Mapping[str, str]] = {
    "generateName": "not supported: the gateway generates no names; give metadata.name",
    "finalizers": "not supported: the gateway alone ends the deletion of an object",
    "ownerReferences": "not supported: the gateway does not delete an object with its owner",
}

_TOP: Final = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})

#: Faults of one object that one error names.
_SAID: Final = 16

_SHOWN: Final = 64


@dataclass(frozen=True, slots=True)
class AskedObject:
    """An object as a client asks for it.

    Attributes:
        spec: the wanted state.
        uid: the uid that an existing object must have; empty for any.
        version: the resourceVersion that an existing object must have; empty for any.
    """

    name: str
    spec: Mapping[str, Any] = field(repr=False)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict, repr=False)
    uid: str = ""
    version: str = ""

    def check_is_of(self, found: CustomObject) -> None:
        """Raise ObjectConflict if a change names another uid or resourceVersion than ``found``."""
        what = f"{found.kind.plural}.{found.kind.group} {found.name!r}"
        if self.uid and self.uid != found.uid:
            raise ObjectConflict(
                f"Precondition failed: UID in precondition: {cut(safe(self.uid), _SHOWN)}, UID in "
                f"object meta: {found.uid}",
                **details_of(found.kind, found.name),
            )
        if self.version and self.version != str(found.version):
            raise ObjectConflict(
                f"Operation cannot be fulfilled on {what}: the object has been modified; please "
                "apply your changes to the latest version and try again",
                **details_of(found.kind, found.name),
            )


def details_of(kind: CustomKind, name: str) -> dict[str, str]:
    return {"name": name, "group": kind.group, "kind": kind.plural}


def asked_object(
    kind: CustomKind, namespace: str, body: Mapping[str, Any], name: str | None = None
) -> AskedObject:
    """Parse a client's object.

    Args:
        name: the name in the path; None if only the body has it.

    Raises:
        BadKubernetesRequest: path and body name different objects.
        InvalidObject: the object cannot be honoured; the causes name the members.
    """
    for member, must in (("apiVersion", kind.api_version), ("kind", kind.kind)):
        if body.get(member) != must:
            raise BadKubernetesRequest(
                f"{member}: {_shown(body.get(member))} was given; it must be {must}"
            )
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise BadKubernetesRequest("metadata must be an object that has a name")
    metadata = {key: value for key, value in metadata.items() if value is not None}
    _check_place(metadata, namespace, name)
    spec = without_nulls(body.get("spec", {}))
    found = [
        *_metadata_faults(metadata),
        *islice(faults(SPECS[kind], spec, "spec"), _SAID),
        *(
            fault(_shown(each), "unknown field")
            for each in islice((each for each in body if each not in _TOP), _SAID)
        ),
    ][:_SAID]
    own_name = metadata.get("name", "")
    if found:
        raise invalid(kind, own_name if isinstance(own_name, str) else "", found)
    return AskedObject(
        own_name,
        spec,
        metadata.get("labels", {}),
        metadata.get("annotations", {}),
        metadata.get("uid", ""),
        metadata.get("resourceVersion", ""),
    )


def invalid(kind: CustomKind, name: str, causes: list[Cause]) -> InvalidObject:
    """Return the refusal of an object, in Kubernetes' own words."""
    said = [f"{each['field']}: {each['message']}" for each in causes]
    together = said[0] if len(said) == 1 else f"[{', '.join(said)}]"
    details = {"name": cut(safe(name), _SHOWN), "group": kind.group, "kind": kind.kind}
    return InvalidObject(
        f'{kind.kind}.{kind.group} "{details["name"]}" is invalid: {together}', causes, **details
    )


def _check_place(metadata: Mapping[str, Any], namespace: str, name: str | None) -> None:
    for member, must in (("namespace", namespace), ("name", name)):
        given = metadata.get(member)
        if given is not None and must is not None and given != must:
            raise BadKubernetesRequest(
                f"the {member} of the provided object does not match the {member} sent on the "
                f"request: {_shown(given)} and {_shown(must)}"
            )


def _metadata_faults(metadata: Mapping[str, Any]) -> Iterator[Cause]:
    name = metadata.get("name", "" if "generateName" not in metadata else "made-up")
    if not isinstance(name, str) or not LABEL.fullmatch(name):
        yield fault("metadata.name", f"must be {LABEL_WORDS}")
    for member in metadata:
        path = f"metadata.{cut(safe(member), _SHOWN)}"
        if metadata[member] and member in _REFUSED:
            yield cause("FieldValueForbidden", path, _REFUSED[member])
        elif member not in _READ | _OF_SERVER | _REFUSED.keys():
            yield fault(path, "unknown field")
    for member in ("uid", "resourceVersion"):
        if not isinstance(metadata.get(member, ""), str):
            yield fault(f"metadata.{member}", "must be a string")
    yield from _texts(metadata.get("labels", {}), "metadata.labels", _LABEL_VALUE)
    yield from _texts(metadata.get("annotations", {}), "metadata.annotations", None)


def _texts(texts: object, path: str, value: re.Pattern[str] | None) -> Iterator[Cause]:
    if not isinstance(texts, dict):
        yield fault(path, "must be an object whose values are strings")
        return
    for name, text in texts.items():
        if not _QUALIFIED.fullmatch(name):
            yield fault(path, f"{_shown(name)} must be a qualified name, such as example.com/app")
        if not isinstance(text, str) or (value is not None and not value.fullmatch(text)):
            words = "a string" if value is None else "at most 63 letters, digits, -, _ and ."
            yield fault(f"{path}.{cut(safe(name), _SHOWN)}", f"must be {words}")


def _shown(value: object) -> str:
    return repr(cut(safe(value), _SHOWN)) if isinstance(value, str) else type(value).__name__
