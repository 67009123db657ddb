"""Who has set which fields: ``metadata.managedFields``, and what server-side apply makes of it.

A field is a path of members; an array is one field with all that is in it, as in custom resources
whose schemas say nothing else of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from partway.gateway.kubernetes.errors import InvalidObject
from partway.gateway.kubernetes.limits import MAX_FIELD_MANAGERS

#: A field, by the names of the members that lead to it.
FieldPath: TypeAlias = tuple[str, ...]

APPLY: Final = "Apply"
UPDATE: Final = "Update"

_OF_METADATA: Final = ("labels", "annotations")


@dataclass(frozen=True, slots=True)
class FieldManager:
    """One manager, with the fields that it has set.

    Attributes:
        name: the manager's, as it says itself.
        operation: how it has set them: by applying, or in another way.
        api_version: by which it has.
        time: when it last has, as RFC 3339 has it.
        fields: which.
    """

    name: str
    operation: str
    api_version: str
    time: str
    fields: frozenset[FieldPath]

    @property
    def is_applier(self) -> bool:
        """Whether it says each time all that it wants, so that what it leaves out goes."""
        return self.operation == APPLY


def fields_of(body: Mapping[str, Any]) -> dict[FieldPath, Any]:
    """The fields of what managers set in an object, with their values."""
    metadata = body.get("metadata", {})
    managed = {
        "metadata": {name: metadata[name] for name in _OF_METADATA if metadata.get(name)},
        "spec": body.get("spec", {}),
    }
    return {
        path: value
        for path, value in _leaves((), managed)
        if path not in (("metadata",), ("spec",))
    }


def _leaves(path: FieldPath, value: Any) -> Iterator[tuple[FieldPath, Any]]:
    if isinstance(value, dict) and value:
        for name, each in value.items():
            yield from _leaves((*path, name), each)
    else:
        yield path, value


def managers_of(managed: Iterable[Mapping[str, Any]]) -> list[FieldManager]:
    """The managers that an object names.

    Raises:
        InvalidObject: they are not written as ``managedFields`` are.
    """
    try:
        return [
            FieldManager(
                str(each["manager"]),
                str(each["operation"]),
                str(each["apiVersion"]),
                str(each.get("time", "")),
                frozenset(_read_fields((), each.get("fieldsV1", {}))),
            )
            for each in managed
        ]
    except (KeyError, AttributeError, TypeError):
        raise InvalidObject(
            "metadata.managedFields: each must have manager, operation, apiVersion and fieldsV1"
        ) from None


def shown_managers(managers: Iterable[FieldManager]) -> tuple[Mapping[str, Any], ...]:
    """Managers as ``managedFields`` has them; those that have set nothing are left out."""
    kept = [each for each in managers if each.fields]
    return tuple(
        {
            "apiVersion": each.api_version,
            "fieldsType": "FieldsV1",
            "fieldsV1": _write_fields(each.fields),
            "manager": each.name,
            "operation": each.operation,
            "time": each.time,
        }
        for each in kept[-MAX_FIELD_MANAGERS:]
    )


def _read_fields(path: FieldPath, fields: Mapping[str, Any]) -> Iterator[FieldPath]:
    for name, below in fields.items():
        if not name.startswith("f:"):
            continue  # "." is the object itself, whose members are there too
        if any(each != "." for each in below):
            yield from _read_fields((*path, name[2:]), below)
        else:
            yield (*path, name[2:])


def _write_fields(fields: Iterable[FieldPath]) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for path in sorted(fields):
        at = written
        for name in path:
            at = at.setdefault(f"f:{name}", {})
    return written


def updated(
    managers: Iterable[FieldManager],
    before: Mapping[FieldPath, Any],
    after: Mapping[FieldPath, Any],
    who: FieldManager,
) -> list[FieldManager]:
    """The managers when one has set fields without applying: what it has changed is its own.

    Args:
        managers: those before.
        before: the fields as they were.
        after: the fields as they are.
        who: has changed them; its ``fields`` are not looked at.
    """
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    gone = before.keys() - after.keys()
    kept, own = [], set(changed)
    for each in managers:
        if (each.name, each.operation) == (who.name, UPDATE):
            own |= each.fields - gone
        else:
            kept.append(replace(each, fields=each.fields - changed - gone))
    if not changed and not gone:
        return list(managers)
    return [*kept, replace(who, operation=UPDATE, fields=frozenset(own))]


def conflicts(
    managers: Iterable[FieldManager],
    live: Mapping[FieldPath, Any],
    asked: Mapping[FieldPath, Any],
    who: str,
) -> list[tuple[FieldPath, FieldManager]]:
    """The fields that one applies otherwise than they are, and that are another manager's."""
    others = [each for each in managers if not (each.is_applier and each.name == who)]
    different = [path for path in asked if path in live and live[path] != asked[path]]
    return [(path, each) for path in different for each in others if path in each.fields]


def applied(
    managers: Iterable[FieldManager],
    live: Mapping[FieldPath, Any],
    asked: Mapping[FieldPath, Any],
    who: FieldManager,
) -> tuple[dict[FieldPath, Any], list[FieldManager]]:
    """The fields, and their managers, when one has applied; conflicts are won.

    Args:
        managers: those before.
        live: the fields as they are.
        asked: the fields that are applied.
        who: applies them; its ``fields`` are not looked at.
    """
    known = list(managers)
    own = next((each for each in known if each.is_applier and each.name == who.name), None)
    others = [each for each in known if each is not own]
    left_out = (own.fields if own else frozenset()) - asked.keys()
    of_others: set[FieldPath] = set().union(*(each.fields for each in others))
    together = {path: value for path, value in live.items() if path not in left_out - of_others}
    taken = {path for path in asked if path in live and live[path] != asked[path]}
    # What becomes an object, or ceases to be one, takes the place of all that was below or above.
    above = {path[:depth] for path in asked for depth in range(1, len(path))}
    replaced = {
        path
        for path in together
        if path in above or any(path[:depth] in asked for depth in range(1, len(path)))
    }
    taken |= replaced
    together = {path: value for path, value in together.items() if path not in replaced}
    together |= asked
    kept = [replace(each, fields=each.fields - taken) for each in others]
    return together, [*kept, replace(who, operation=APPLY, fields=frozenset(asked))]


def body_of(fields: Mapping[FieldPath, Any]) -> dict[str, Any]:
    """The objects that fields are members of."""
    body: dict[str, Any] = {}
    for path, value in fields.items():
        at = body
        for name in path[:-1]:
            at = at.setdefault(name, {})
        at[path[-1]] = value
    return body
