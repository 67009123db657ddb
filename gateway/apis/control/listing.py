"""Lists of resources: filters, order and pages, the same for all kinds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from partway.gateway.apis.aws_json.page_tokens import bad_token, position_of, token_of
from partway.gateway.apis.control.limits import LIST_PAGE

#: A position in a list: the sort value, and the name, which is unique.
_Place: TypeAlias = tuple[float | str, str]


@dataclass(frozen=True, slots=True)
class Listed:
    """One resource in a list.

    Attributes:
        created: the time of the creation, in epoch seconds.
        modified: the time of the last change, in epoch seconds.
        summary: the members that the list shows.
        status: the status in the API's words; empty for resources without one.
    """

    name: str
    created: float
    modified: float
    summary: Mapping[str, Any]
    status: str = ""


def page_of(
    operation: str, output: str, listed: Iterable[Listed], members: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answer of a list operation.

    A page continues after the last position of the page before, even if that resource is gone. So
    changes between two pages neither repeat nor omit other resources.

    Args:
        members: the input, checked.

    Raises:
        ValidationException: the NextToken does not belong to this list.
    """
    order = members.get("SortBy", "CreationTime")
    descending = members.get("SortOrder", "Descending") == "Descending"
    asked_for = [operation, {**members, "NextToken": None, "MaxResults": None}]
    places = {_place(each, order): each for each in _fitting(listed, members)}
    wanted: Iterable[_Place] = places
    if token := members.get("NextToken"):
        last = _known_place(position_of(asked_for, token), order)
        wanted = (place for place in places if (place < last if descending else place > last))
    most = members.get("MaxResults", LIST_PAGE)
    pick = heapq.nlargest if descending else heapq.nsmallest
    found = pick(most + 1, wanted)
    answer: dict[str, Any] = {output: [places[place].summary for place in found[:most]]}
    if len(found) > most:
        answer["NextToken"] = token_of(asked_for, found[most - 1])
    return answer


def _place(each: Listed, order: str) -> _Place:
    name = each.name.lower()
    match order:
        case "Name":
            return name, name
        case "Status":
            return each.status, name
        case "LastModifiedTime":
            return each.modified, name
        case _:
            return each.created, name


def _known_place(position: Any, order: str) -> _Place:
    """Return the place in a token, or raise ValidationException: a digest prevents no forgery."""
    kind = str if order in ("Name", "Status") else int | float
    match position:
        case [value, str(name)] if isinstance(value, kind):
            return value, name
    raise bad_token()


def _fitting(listed: Iterable[Listed], members: Mapping[str, Any]) -> Iterator[Listed]:
    """Yield the resources that pass all filters; names are matched regardless of case."""
    part = members.get("NameContains", "").lower()
    status = members.get("StatusEquals")
    for each in listed:
        if (
            part in each.name.lower()
            and status in (None, each.status)
            and _between(each.created, members, "CreationTime")
            and _between(each.modified, members, "LastModifiedTime")
        ):
            yield each


def _between(moment: float, members: Mapping[str, Any], what: str) -> bool:
    after, before = members.get(f"{what}After"), members.get(f"{what}Before")
    return (after is None or moment > after) and (before is None or moment < before)
