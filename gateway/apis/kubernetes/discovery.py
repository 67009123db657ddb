"""Discovery of groups, versions and resources, which clients ask for first."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from typing import Any, Final

from partway import __version__
from partway.gateway.apis.kubernetes.custom_object import KINDS, PREFIX, VERSION, CustomKind
from partway.gateway.apis.kubernetes.schemas import SPECS, JsonType, SpecMember

#: The version of Kubernetes that this API is a part of, for ``kubectl version``.
_MAJOR, _MINOR = "1", "32"

_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")

_METADATA: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def documents() -> dict[str, bytes]:
    """Return the answers of discovery, by the paths below PREFIX."""
    found: dict[str, Any] = {
        "/api": {"kind": "APIVersions", "versions": [], "serverAddressByClientCIDRs": []},
        "/apis": {
            "kind": "APIGroupList",
            "apiVersion": "v1",
            "groups": [_group(each) for each in KINDS],
        },
        "/version": _version(),
        "/openapi/v3": {
            "paths": {
                f"apis/{each.api_version}": {
                    "serverRelativeURL": f"{PREFIX}/openapi/v3/apis/{each.api_version}"
                }
                for each in KINDS
            }
        },
    }
    for each in KINDS:
        found[f"/apis/{each.group}"] = {"kind": "APIGroup", "apiVersion": "v1", **_group(each)}
        found[f"/apis/{each.api_version}"] = _resources(each)
        found[f"/openapi/v3/apis/{each.api_version}"] = _openapi(each)
    return {path: json.dumps(said).encode() for path, said in found.items()}


def _version() -> dict[str, str]:
    return {
        "major": _MAJOR,
        "minor": _MINOR,
        "gitVersion": f"v{_MAJOR}.{_MINOR}.0+partway.{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation(),
        "platform": "linux/amd64",
    }


def _group(kind: CustomKind) -> dict[str, Any]:
    version = {"groupVersion": kind.api_version, "version": VERSION}
    return {"name": kind.group, "versions": [version], "preferredVersion": version}


def _resources(kind: CustomKind) -> dict[str, Any]:
    resource = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": True,
        "kind": kind.kind,
        "verbs": list(_VERBS),
        "shortNames": list(kind.short_names),
    }
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": kind.api_version,
        "resources": [resource],
    }


# --- Schemas for kubectl explain -----------------------------------------------------------------


def _openapi(kind: CustomKind) -> dict[str, Any]:
    """Return a group's schema and operations, for ``kubectl explain``."""
    name = ".".join([*reversed(kind.group.split(".")), VERSION, kind.kind])
    of_kind = {"group": kind.group, "kind": kind.kind, "version": VERSION}
    schema = {
        "description": SPECS[kind].what,
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": kind.api_version},
            "kind": {"type": "string", "description": kind.kind},
            "metadata": {"$ref": f"#/components/schemas/{_METADATA}"},
            "spec": _schema_of(SPECS[kind]),
            "status": {
                "type": "object",
                "description": "The actual state, which the gateway writes.",
            },
        },
        "x-kubernetes-group-version-kind": [of_kind],
    }
    query = [
        {"name": each, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for each in ("dryRun", "fieldValidation")
    ]
    operation = {
        "parameters": query,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-group-version-kind": of_kind,
    }
    path = f"/apis/{kind.api_version}/namespaces/{{namespace}}/{kind.plural}"
    return {
        "openapi": "3.0.0",
        "info": {"title": "Partway", "version": __version__},
        "paths": {
            path: {"post": {**operation, "x-kubernetes-action": "post"}},
            f"{path}/{{name}}": {
                "patch": {**operation, "x-kubernetes-action": "patch"},
                "put": {**operation, "x-kubernetes-action": "put"},
            },
        },
        "components": {
            "schemas": {
                name: schema,
                _METADATA: {
                    "type": "object",
                    "description": "Name, namespace, labels and annotations.",
                },
            }
        },
    }


def _schema_of(member: SpecMember) -> Mapping[str, Any]:
    said = member.what
    if member.why:
        said = f"{said} ({member.handling.value}: {member.why})"
    kind: JsonType = member.type
    schema: dict[str, Any] = {"type": kind, "description": said}
    if member.members:
        schema["properties"] = {name: _schema_of(each) for name, each in member.members.items()}
        if needed := [name for name, each in member.members.items() if each.needed]:
            schema["required"] = needed
    if kind == "array":
        schema["items"] = _schema_of(member.items) if member.items else {"type": "string"}
    return schema
