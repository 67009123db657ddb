"""The schemas of objects' specs, as data, for validation, ``kubectl explain`` and the reference.

A member that is not in a schema is refused like a member that the schema refuses: no request is
ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from partway.gateway.apis.handling import Handling
from partway.gateway.apis.kubernetes.custom_object import DEPLOYED_MODEL, ENDPOINT, CustomKind
from partway.gateway.apis.kubernetes.limits import MAX_DESTINATIONS
from partway.gateway.plain_text import cut

JsonType: TypeAlias = Literal["string", "integer", "boolean", "array", "object"]

#: A cause of a Status: ``reason``, ``message`` and ``field``.
Cause: TypeAlias = Mapping[str, str]

_PYTHON: Final[Mapping[JsonType, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
}

#: Characters of a value that an error repeats.
_SHOWN: Final = 64

#: A DNS label of RFC 1123: valid as a name in Kubernetes, and of an endpoint, a model and a
#: variant.
LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
LABEL_WORDS: Final = "1 to 63 characters of a-z, 0-9 and -, with a letter or digit first and last"


@dataclass(frozen=True, slots=True)
class SpecMember:
    """One member of a spec.

    Attributes:
        why: why the member has no effect or is refused, and the remedy.
        pattern: the pattern that a whole string must match.
        words: the pattern in words.
        least: the smallest number, or the smallest number of items or characters.
        most: the largest number, or the largest number of items or characters.
        harmless: values of a refused member that ask for nothing, and are accepted.
    """

    type: JsonType
    what: str
    handling: Handling = Handling.DONE
    why: str = ""
    needed: bool = False
    members: Mapping[str, SpecMember] = field(default_factory=dict)
    items: SpecMember | None = None
    pattern: re.Pattern[str] | None = None
    words: str = ""
    least: int | None = None
    most: int | None = None
    harmless: tuple[Any, ...] = ()


def _no_effect(kind: JsonType, what: str, why: str, **more: Any) -> SpecMember:
    return SpecMember(kind, what, Handling.NO_EFFECT, why, **more)


def _refused(kind: JsonType, what: str, why: str, *harmless: Any) -> SpecMember:
    return SpecMember(kind, what, Handling.REFUSED, why, harmless=harmless)


_NAME: Final = SpecMember(
    "string", "The DeployedModel's name.", needed=True, pattern=LABEL, words=LABEL_WORDS
)

#: The forms of an ``endpointPath``; the platform's documents use both.
ENDPOINT_PATH: Final = re.compile(
    rf"(?:projects/[^/]{{1,128}}/locations/[^/]{{1,64}}/)?endpoints/(?P<endpoint>{LABEL.pattern})"
)

_CONTAINER: Final = {
    "imageURI": SpecMember(
        "string",
        "The image that serves the model: a name in [images] of the settings, or an image for the "
        "container engine.",
        needed=True,
    ),
    "env": SpecMember(
        "array",
        "The environment variables of the container.",
        items=SpecMember(
            "object",
            "One variable.",
            members={
                "name": SpecMember("string", "The variable's name.", needed=True),
                "value": SpecMember("string", "The variable's value."),
            },
        ),
    ),
    "command": _refused(
        "array",
        "The command that replaces the image's entry point.",
        "callers may not choose a command; the gateway runs the image's own entry point",
        [],
    ),
    "args": _refused(
        "array",
        "The arguments of the entry point.",
        "callers may not choose arguments; the gateway runs the image's entry point with the "
        "argument serve",
        [],
    ),
    "ports": SpecMember(
        "array",
        "The port where the container listens; it must be 8080.",
        items=SpecMember("integer", "A port.", least=8080, most=8080),
        most=1,
    ),
    "grpcPorts": _no_effect(
        "array",
        "The ports where the container listens for gRPC.",
        "the gateway calls containers over HTTP",
        items=SpecMember("integer", "A port.", least=1, most=65535),
    ),
}  # fmt: skip

_MODEL: Final = {
    "artifactLocation": SpecMember(
        "string",
        "The folder of the model's data, at s3://BUCKET/PREFIX, or an archive that ends with "
        ".tar.gz.",
    ),
    "id": _no_effect("string", "The model's id.", "the object's name identifies the model"),
    "modelDisplayName": _no_effect(
        "string", "The model's name for people.", "the gateway keeps and shows it"
    ),
    "modelResourceName": _no_effect(
        "string",
        "The model's resource name: models/MODEL/VERSION.",
        "the object's name identifies the model",
    ),
    "modelVersionID": _no_effect(
        "string",
        "The version of the model.",
        "the container gets all of artifactLocation, and chooses a version itself",
    ),
    "modelContainerSpec": SpecMember(
        "object", "The container that serves the model.", needed=True, members=_CONTAINER
    ),
}

_REFERENCE: Final = {
    name: _no_effect("string", what, "there are no ResourcePools")
    for name, what in (
        ("apiVersion", "The ResourcePool's API version."),
        ("kind", "The ResourcePool's kind."),
        ("name", "The ResourcePool's name."),
        ("namespace", "The ResourcePool's namespace."),
    )
}

_DEPLOYED_MODEL: Final = {
    "endpointPath": SpecMember(
        "string",
        "The endpoint that the model is deployed to: endpoints/ENDPOINT.",
        needed=True,
        pattern=ENDPOINT_PATH,
        words=f"endpoints/ENDPOINT, where ENDPOINT is {LABEL_WORDS}; "
        "projects/PROJECT/locations/LOCATION/ may stand before it",
    ),
    "modelSpec": SpecMember("object", "The model and its container.", needed=True, members=_MODEL),
    "resourcePoolRef": _no_effect(
        "object",
        "The ResourcePool whose resources the model uses.",
        "there are no ResourcePools; a variant has one instance",
        members=_REFERENCE,
    ),
    "sharesResourcePool": _no_effect(
        "boolean", "Whether other models use the ResourcePool too.", "there are no ResourcePools"
    ),
}

_DESTINATION: Final = {
    "serviceRef": SpecMember(
        "object",
        "The DeployedModel that gets the traffic.",
        needed=True,
        members={
            "kind": SpecMember(
                "string",
                "The kind of the destination.",
                needed=True,
                pattern=re.compile(DEPLOYED_MODEL.kind),
                words=DEPLOYED_MODEL.kind,
            ),
            "name": _NAME,
            "namespace": SpecMember(
                "string", "The DeployedModel's namespace, which must be the Endpoint's own."
            ),
        },
    ),
    "trafficPercentage": SpecMember(
        "integer",
        "The destination's share of the traffic in percent; the shares of all destinations add "
        "up to 100.",
        least=0,
        most=100,
    ),
    "httpPort": _no_effect("integer", "The HTTP port of a sidecar.", "there are no sidecars"),
    "grpcPort": _no_effect("integer", "The gRPC port of a sidecar.", "there are no sidecars"),
}

_ENDPOINT: Final = {
    "destinations": SpecMember(
        "array",
        "The DeployedModels that get the traffic.",
        needed=True,
        items=SpecMember("object", "One destination.", members=_DESTINATION),
        least=1,
        most=MAX_DESTINATIONS,
    ),
    "id": SpecMember(
        "string",
        "The endpoint's name; by default the object's name.",
        pattern=LABEL,
        words=LABEL_WORDS,
    ),
    "userProvidedID": SpecMember(
        "string", "The endpoint's name, as in id.", pattern=LABEL, words=LABEL_WORDS
    ),
    "createDns": _no_effect(
        "boolean", "Whether to create a DNS name.", "the gateway changes no DNS server"
    ),
    "dnsName": _no_effect(
        "string",
        "An existing DNS name of the endpoint.",
        "a DNS name leads to the endpoint that its first label names",
    ),
}  # fmt: skip

SPECS: Final[Mapping[CustomKind, SpecMember]] = {
    DEPLOYED_MODEL: SpecMember(
        "object",
        "A model, and the endpoint that it is deployed to.",
        needed=True,
        members=_DEPLOYED_MODEL,
    ),
    ENDPOINT: SpecMember(
        "object",
        "An endpoint, and the models that get its traffic.",
        needed=True,
        members=_ENDPOINT,
    ),
}


def rows(kind: CustomKind) -> Iterator[tuple[str, SpecMember]]:
    """Yield a kind's members with their paths, such as ``spec.destinations[].httpPort``."""
    yield from _rows("spec", SPECS[kind])


def _rows(path: str, member: SpecMember) -> Iterator[tuple[str, SpecMember]]:
    for name, below in member.members.items():
        yield f"{path}.{name}", below
        yield from _rows(f"{path}.{name}", below)
    if member.items is not None:
        yield from _rows(f"{path}[]", member.items)


def faults(member: SpecMember, value: object, path: str) -> Iterator[Cause]:
    """Yield the faults of a value, with their paths.

    Args:
        path: the path of the value, such as ``spec``.
    """
    if type(value) is not _PYTHON[member.type]:
        found = "null" if value is None else type(value).__name__
        yield cause("FieldValueTypeInvalid", path, f"must be of type {member.type}, not {found}")
        return
    if member.handling is Handling.REFUSED and value not in member.harmless:
        yield cause("FieldValueForbidden", path, f"not supported: {member.why}")
        return
    yield from _value_faults(member, value, path)
    if isinstance(value, dict):
        yield from _object_faults(member, value, path)
    if isinstance(value, list) and member.items is not None:
        for number, each in enumerate(value):
            yield from faults(member.items, each, f"{path}[{number}]")


def _value_faults(member: SpecMember, value: Any, path: str) -> Iterator[Cause]:
    if member.pattern is not None and not member.pattern.fullmatch(value):
        yield fault(path, f"{_shown(value)} must be {member.words}")
    parts = {"array": "items", "string": "characters"}.get(member.type)
    size = len(value) if parts else value
    what = f"{size} {parts} were given; there" if parts else f"{size} was given; it"
    if member.least is not None and size < member.least:
        said = f"{what} must be at least {member.least}"
        yield fault(path, said)
    if member.most is not None and size > member.most:
        said = f"{what} must be at most {member.most}"
        yield fault(path, said)


def _object_faults(member: SpecMember, value: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for name, each in value.items():
        if name in member.members:
            yield from faults(member.members[name], each, f"{path}.{name}")
        else:
            known = ", ".join(member.members)
            yield fault(f"{path}.{cut(name, _SHOWN)}", f"unknown field; {path} may have: {known}")
    for name, below in member.members.items():
        if below.needed and name not in value:
            yield cause("FieldValueRequired", f"{path}.{name}", "must be given")


def fault(path: str, message: str) -> Cause:
    return cause("FieldValueInvalid", path, message)


def cause(reason: str, path: str, message: str) -> Cause:
    return {"reason": reason, "message": message, "field": path}


def _shown(value: str) -> str:
    return repr(cut(value, _SHOWN))
