"""Custom resource definitions, made from the same tables as the embedded server's schemas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from partway.gateway.apis.handling import Handling
from partway.gateway.apis.kubernetes.custom_object import (
    DEPLOYED_MODEL,
    ENDPOINT,
    UNREACHABLE_POD,
    VERSION,
    CustomKind,
)
from partway.gateway.apis.kubernetes.schemas import SPECS, SpecMember

#: Characters of a time.
_TIME: Final = 40

_REPORT: Final = SpecMember(
    "object",
    "A pod that a gateway cannot reach: made by the gateway, and read by the operator.",
    needed=True,
    members={
        "pod": SpecMember("string", "The pod's name.", needed=True, most=253),
        "podUID": SpecMember("string", "The pod's uid.", needed=True, most=36),
        "gateway": SpecMember("string", "The gateway's own pod.", needed=True, most=253),
        "since": SpecMember(
            "string", "When the pod stopped answering, by RFC 3339.", needed=True, most=_TIME
        ),
        "renewed": SpecMember(
            "string", "When the gateway last renewed the report, by RFC 3339.", most=_TIME
        ),
    },
)

#: The name of an object's endpoint in CEL, as ``endpoint_of`` has it, and the members that give it.
_ENDPOINT_NAMES: Final[Mapping[CustomKind, tuple[str, str]]] = {
    DEPLOYED_MODEL: ("{0}.spec.endpointPath", "spec.endpointPath"),
    ENDPOINT: (
        (
            "(has({0}.spec.id) ? {0}.spec.id : has({0}.spec.userProvidedID) ? "
            "{0}.spec.userProvidedID : {0}.metadata.name)"
        ),
        "spec.id and spec.userProvidedID",
    ),
}

_GROUP: Final = re.compile(r"\(\?P<\w+>")

#: Columns of ``kubectl get``: name, type and path.
_COLUMNS: Final[Mapping[CustomKind, tuple[tuple[str, str, str], ...]]] = {
    DEPLOYED_MODEL: (
        ("Endpoint", "string", ".spec.endpointPath"),
        ("Reason", "string", ".status.primaryCondition.reason"),
    ),
    ENDPOINT: (
        ("Ready", "string", '.status.conditions[?(@.type=="EndpointReady")].status'),
        ("Reason", "string", '.status.conditions[?(@.type=="EndpointReady")].reason'),
    ),
    UNREACHABLE_POD: (
        ("Pod", "string", ".spec.pod"),
        ("Gateway", "string", ".spec.gateway"),
        ("Renewed", "date", ".spec.renewed"),
    ),
}
#: The words of a schema for the least and the most of a type; those of numbers are left out.
_LIMITS: Final = {"array": ("minItems", "maxItems"), "string": ("minLength", "maxLength")}
_AGE: Final = ("Age", "date", ".metadata.creationTimestamp")


def definitions() -> dict[str, Any]:
    """Return the definitions of all kinds, as a list for ``kubectl apply``."""
    specs = {**SPECS, UNREACHABLE_POD: _REPORT}
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [_definition(kind, spec) for kind, spec in specs.items()],
    }


def _definition(kind: CustomKind, spec: SpecMember) -> dict[str, Any]:
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced",
            "versions": [_version(kind, spec)],
        },
    }


def _version(kind: CustomKind, spec: SpecMember) -> dict[str, Any]:
    columns = [
        {"name": name, "type": type_, "jsonPath": path}
        for name, type_, path in (*_COLUMNS[kind], _AGE)
    ]
    schema: dict[str, Any] = {
        "type": "object",
        "description": spec.what,
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(spec),
            "status": {
                "type": "object",
                "description": "The actual state, which the operator writes.",
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
    }
    if kind in _ENDPOINT_NAMES:
        name, members = _ENDPOINT_NAMES[kind]
        schema["x-kubernetes-validations"] = [  # Kubernetes 1.25 and later; others leave them out
            {
                "rule": f"{name.format('self')} == {name.format('oldSelf')}",
                "message": f"{members}: immutable: delete the object and create it again",
            }
        ]
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
    }


def structural(member: SpecMember) -> dict[str, Any]:
    """Return a member's structural schema (apiextensions.k8s.io/v1).

    It refuses as much as such a schema can. Rules between members are the operator's to check.
    """
    said = f"{member.what} ({member.handling.value}: {member.why})" if member.why else member.what
    schema: dict[str, Any] = {"type": member.type, "description": said}
    if member.members:
        schema["properties"] = {name: structural(each) for name, each in member.members.items()}
        if needed := [name for name, each in member.members.items() if each.needed]:
            schema["required"] = needed
    if member.type == "array":
        schema["items"] = structural(member.items) if member.items else {"type": "string"}
    if member.pattern is not None:
        # The server's patterns have no named groups everywhere, and match anywhere in a string.
        schema["pattern"] = f"^(?:{_GROUP.sub('(?:', member.pattern.pattern)})$"
    limits = _LIMITS.get(member.type, ("minimum", "maximum"))
    given = zip(limits, (member.least, member.most), strict=True)
    schema |= {word: limit for word, limit in given if limit is not None}
    if member.handling is Handling.REFUSED and member.type == "array":
        schema["maxItems"] = 0
    return schema
