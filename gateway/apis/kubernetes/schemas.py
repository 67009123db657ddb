"""The schemas of objects' specs, as data, for validation, ``kubectl explain`` and the reference.

A member that is not in a schema is refused like a member that the schema refuses: no request is
ignored silently.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from partway.gateway.apis.control.coverage import Handling
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
        type: the JSON type of the value.
        what: the description for people.
        handling: the handling of the member.
        why: why the member has no effect or is refused, and the remedy.
        needed: whether the member is required.
        members: the members of an object.
        items: the items of an array.
        pattern: the pattern that a whole string must match.
        words: the pattern in words.
        least: the smallest number, or the smallest number of items.
        most: the largest number, or the largest number of items.
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


_NAME: Final = SpecMember("string", "Its name.", needed=True, pattern=LABEL, words=LABEL_WORDS)

#: The forms of an ``endpointPath``; the platform's documents use both.
ENDPOINT_PATH: Final = re.compile(
    rf"(?:projects/[^/]{{1,128}}/locations/[^/]{{1,64}}/)?endpoints/(?P<endpoint>{LABEL.pattern})"
)

_CONTAINER: Final = {
    "imageURI": SpecMember(
        "string", "The image that serves the model: one of [images], or a container engine's.",
        needed=True,
    ),
    "env": SpecMember(
        "array",
        "Variables of the container.",
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
        "In place of the image's entry point.",
        "who asks over the API names no command; the image's own entry point is run",
        [],
    ),
    "args": _refused(
        "array",
        "For the entry point.",
        "who asks over the API names no arguments; the image's entry point is run with serve",
        [],
    ),
    "ports": SpecMember(
        "array",
        "Where the container listens: 8080.",
        items=SpecMember("integer", "A port.", least=8080, most=8080),
        most=1,
    ),
    "grpcPorts": _no_effect(
        "array",
        "Where the container listens for gRPC.",
        "containers are asked over HTTP",
        items=SpecMember("integer", "A port.", least=1, most=65535),
    ),
}  # fmt: skip

_MODEL: Final = {
    "artifactLocation": SpecMember(
        "string",
        "The folder of the model's data, at s3://BUCKET/PREFIX, or an archive that ends with "
        ".tar.gz.",
    ),
    "id": _no_effect("string", "The model's id.", "models go by the object's name"),
    "modelDisplayName": _no_effect("string", "What people call the model.", "it is kept"),
    "modelResourceName": _no_effect(
        "string", "models/MODEL/VERSION.", "models go by the object's name"
    ),
    "modelVersionID": _no_effect(
        "string",
        "Which version of the model.",
        "the container has all of artifactLocation, and chooses",
    ),
    "modelContainerSpec": SpecMember(
        "object", "The container that serves the model.", needed=True, members=_CONTAINER
    ),
}

_REFERENCE: Final = {
    name: _no_effect("string", what, "there are no ResourcePools")
    for name, what in (
        ("apiVersion", "Its API version."),
        ("kind", "Its kind."),
        ("name", "Its name."),
        ("namespace", "Its namespace."),
    )
}

_DEPLOYED_MODEL: Final = {
    "endpointPath": SpecMember(
        "string",
        "The endpoint that the model is deployed to: endpoints/ENDPOINT.",
        needed=True,
        pattern=ENDPOINT_PATH,
        words=f"endpoints/ENDPOINT, where ENDPOINT is {LABEL_WORDS}; or the same behind "
        "projects/PROJECT/locations/LOCATION/",
    ),
    "modelSpec": SpecMember("object", "The model.", needed=True, members=_MODEL),
    "resourcePoolRef": _no_effect(
        "object",
        "The ResourcePool with what the model needs.",
        "there are no ResourcePools; a variant has one instance",
        members=_REFERENCE,
    ),
    "sharesResourcePool": _no_effect(
        "boolean", "Whether others use the ResourcePool too.", "there are no ResourcePools"
    ),
}

_DESTINATION: Final = {
    "serviceRef": SpecMember(
        "object",
        "What gets the traffic.",
        needed=True,
        members={
            "kind": SpecMember(
                "string",
                "Its kind.",
                needed=True,
                pattern=re.compile(DEPLOYED_MODEL.kind),
                words=DEPLOYED_MODEL.kind,
            ),
            "name": _NAME,
            "namespace": SpecMember("string", "The Endpoint's own namespace."),
        },
    ),
    "trafficPercentage": SpecMember(
        "integer",
        "Its share of the traffic; those of all destinations are 100 together.",
        least=0,
        most=100,
    ),
    "httpPort": _no_effect("integer", "Of a sidecar.", "there are no sidecars"),
    "grpcPort": _no_effect("integer", "Of a sidecar.", "there are no sidecars"),
}

_ENDPOINT: Final = {
    "destinations": SpecMember(
        "array",
        "What gets the traffic.",
        needed=True,
        items=SpecMember("object", "One of them.", members=_DESTINATION),
        least=1,
        most=MAX_DESTINATIONS,
    ),
    "id": SpecMember(
        "string",
        "The endpoint's name; that of the object unless it is given.",
        pattern=LABEL,
        words=LABEL_WORDS,
    ),
    "userProvidedID": SpecMember(
        "string", "The same as id.", pattern=LABEL, words=LABEL_WORDS
    ),
    "createDns": _no_effect(
        "boolean", "Whether a DNS name is to be made.", "no DNS server is told anything"
    ),
    "dnsName": _no_effect(
        "string", "A DNS name that is there.", "any name leads to the endpoint that begins with it"
    ),
}  # fmt: skip

#: The members of each kind's spec.
SPECS: Final[Mapping[CustomKind, SpecMember]] = {
    DEPLOYED_MODEL: SpecMember(
        "object", "The model and where it is deployed.", needed=True, members=_DEPLOYED_MODEL
    ),
    ENDPOINT: SpecMember("object", "The traffic.", needed=True, members=_ENDPOINT),
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
        member: the schema of the value.
        value: the value in JSON.
        path: the path of the value, such as ``spec``.
    """
    if type(value) is not _PYTHON[member.type]:
        found = "null" if value is None else type(value).__name__
        yield _cause("FieldValueTypeInvalid", path, f"must be of type {member.type}, not {found}")
        return
    if member.handling is Handling.REFUSED and value not in member.harmless:
        yield _cause("FieldValueForbidden", path, f"cannot be honoured: {member.why}")
        return
    yield from _value_faults(member, value, path)
    if isinstance(value, dict):
        yield from _object_faults(member, value, path)
    if isinstance(value, list) and member.items is not None:
        for number, each in enumerate(value):
            yield from faults(member.items, each, f"{path}[{number}]")


def _value_faults(member: SpecMember, value: Any, path: str) -> Iterator[Cause]:
    if member.pattern is not None and not member.pattern.fullmatch(value):
        yield _cause("FieldValueInvalid", path, f"{_shown(value)} must be {member.words}")
    size = len(value) if isinstance(value, list) else value
    what = f"{size} items were" if isinstance(value, list) else f"{size} was"
    if member.least is not None and size < member.least:
        said = f"{what} given; it must be {member.least} or more"
        yield _cause("FieldValueInvalid", path, said)
    if member.most is not None and size > member.most:
        said = f"{what} given; it must be {member.most} or less"
        yield _cause("FieldValueInvalid", path, said)


def _object_faults(member: SpecMember, value: Mapping[str, Any], path: str) -> Iterator[Cause]:
    for name, each in value.items():
        if name in member.members:
            yield from faults(member.members[name], each, f"{path}.{name}")
        else:
            known = ", ".join(member.members)
            yield _cause(
                "FieldValueInvalid",
                f"{path}.{cut(name, _SHOWN)}",
                f"unknown field; {path} may have: {known}",
            )
    for name, below in member.members.items():
        if below.needed and name not in value:
            yield _cause("FieldValueRequired", f"{path}.{name}", "must be given")


def _cause(reason: str, path: str, message: str) -> Cause:
    return {"reason": reason, "message": message, "field": path}


def _shown(value: str) -> str:
    return repr(cut(value, _SHOWN))
