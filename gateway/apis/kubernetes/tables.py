"""Tables for ``kubectl get``, whose columns the server chooses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from partway.gateway.apis.kubernetes.conditions import is_ready, reason_of
from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.endpoint_rules import endpoint_of
from partway.gateway.apis.kubernetes.errors import FormNotAcceptable
from partway.gateway.plain_text import cut, safe

_TABLES: Final = ("v1", "v1beta1")
_SHOWN: Final = 128

#: The part of an object that a table's row includes.
IncludeObject: TypeAlias = Literal["None", "Metadata", "Object"]

_COLUMNS: Final[tuple[tuple[str, str, int, str], ...]] = (
    ("Name", "name", 0, "The object's name."),
    ("Endpoint", "", 0, "The endpoint that the object belongs to."),
    ("Ready", "", 0, "Whether the object is ready."),
    ("Reason", "", 0, "The reason of the object's state, in one word."),
    ("Age", "", 0, "The time since the object's creation."),
)


class AcceptedForm(NamedTuple):
    """The format of an answer.

    Attributes:
        table: the version of a Table; empty for plain objects.
    """

    table: str = ""


def accepted_form(accept: str) -> AcceptedForm:
    """Return the first supported format of an ``Accept`` header, or raise FormNotAcceptable."""
    if not accept.strip():
        return AcceptedForm()
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind.lower() not in ("application/json", "application/*", "*/*"):
            continue
        said = dict(part.partition("=")[::2] for part in parameters)
        if "as" not in said:
            return AcceptedForm()
        if (said["as"], said.get("g")) == ("Table", "meta.k8s.io") and said.get("v") in _TABLES:
            return AcceptedForm(said["v"])
    raise FormNotAcceptable(
        f"Accept: {cut(safe(accept), _SHOWN)!r} was given; it must allow application/json, "
        "alone or with as=Table;v=v1;g=meta.k8s.io"
    )


def table(
    objects: Iterable[CustomObject],
    version: str,
    include: IncludeObject,
    now: float,
    metadata: Mapping[str, Any],
    *,
    with_columns: bool = True,
) -> dict[str, Any]:
    """Return objects as a Table (``meta.k8s.io``).

    Args:
        include: the part of each object that its row includes.
        now: the time in epoch seconds, for ages.
        with_columns: whether to describe the columns; a watch does so once.
    """
    head = table_head(version, metadata, with_columns=with_columns)
    return {**head, "rows": [table_row(each, version, include, now) for each in objects]}


def table_head(
    version: str, metadata: Mapping[str, Any], *, with_columns: bool = True
) -> dict[str, Any]:
    """Return a Table without its rows; see :func:`table`."""
    columns = [
        {"name": name, "type": "string", "format": form, "description": what, "priority": priority}
        for name, form, priority, what in _COLUMNS
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": dict(metadata),
        "columnDefinitions": columns if with_columns else [],
    }


def table_row(
    each: CustomObject, version: str, include: IncludeObject, now: float
) -> dict[str, Any]:
    cells = [
        each.name,
        endpoint_of(each),
        str(is_ready(each)),
        reason_of(each),
        age(now - datetime.fromisoformat(each.created).timestamp()),
    ]
    row: dict[str, Any] = {"cells": cells}
    if include == "Object":
        row["object"] = each.shown()
    elif include == "Metadata":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": each.metadata(),
        }
    return row


def age(seconds: float) -> str:
    """Return a duration in Kubernetes' format; short ones have a second, smaller unit."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    years = days // 365
    return _two(years, "y", days % 365, "d") if years < 8 else f"{years}y"


def _two(first: int, unit: str, second: int, smaller: str) -> str:
    return f"{first}{unit}{second}{smaller}" if second else f"{first}{unit}"
