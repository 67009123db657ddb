"""Reading a client's JSON objects by type, and their faults.

A fault of a stream's event is answered with an ``error`` event, and one of a request with 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from partway.container.models.chat.json_objects import quoted
from partway.container.models.voice.limits import MAX_ITEM_TEXT, MAX_NAME

#: Most characters of a name that is reported.
_SHOWN: Final = 40

#: Most names that are reported of one object.
_MOST_IGNORED: Final = 64


class RealtimeFault(Exception):
    """An event that cannot be obeyed, or a wrong request; a session goes on.

    Attributes:
        code: a name for programs, such as ``invalid_value``.
        param: the path of the member at fault; empty if no member is.
    """

    def __init__(self, message: str, *, code: str = "invalid_value", param: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.param = param


class Members:
    """The members of a client's JSON object, read by type; a null counts as absent.

    Args:
        members: the object's.
        path: of the object in its event, such as ``session.audio``; empty for the event.
    """

    def __init__(self, members: Mapping[str, Any], path: str = "") -> None:
        self._members = members
        self._path = path

    def path_of(self, name: str) -> str:
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Whether the member is there, be it null."""
        return name in self._members

    def is_null(self, name: str) -> bool:
        """Whether the member is there and null."""
        return name in self._members and self._members[name] is None

    def value(self, name: str) -> Any:
        return self._members.get(name)

    def ignored(self, known: frozenset[str]) -> frozenset[str]:
        """Return the paths of some members that have a value and are not known."""
        names = (
            self.path_of(name[:_SHOWN])
            for name, value in self._members.items()
            if name not in known and value is not None
        )
        return frozenset(islice(names, _MOST_IGNORED))

    def text(self, name: str, default: str = "", *, most: int = MAX_ITEM_TEXT) -> str:
        """Return a string of at most so many characters.

        Raises:
            RealtimeFault: it is no string, or too long; the methods below do so for their types.
        """
        value = self._members.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.fault(name, "a string")
        if len(value) > most:
            raise RealtimeFault(
                f"{self.path_of(name)} has {len(value)} characters; it must have at most {most}",
                param=self.path_of(name),
            )
        return value

    def needed(self, name: str, *, most: int = MAX_ITEM_TEXT) -> str:
        """Return a string that must be there, and not be empty."""
        value = self.text(name, most=most)
        if not value:
            raise RealtimeFault(
                f"{self.path_of(name)} is missing; it must be a string that is not empty",
                code="missing_required_parameter",
                param=self.path_of(name),
            )
        return value

    def name_or_id(self, name: str, default: str = "") -> str:
        """Return a name, or the ``id`` of an object: OpenAI's form of a voice of one's own."""
        if isinstance(self._members.get(name), dict):
            return self.inner(name).text("id", most=MAX_NAME)
        return self.text(name, default, most=MAX_NAME)

    def one_of(self, name: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """Return one of some strings; without a default it must be there."""
        if default is not None and self._members.get(name) is None:
            return default
        value = self.text(name)
        if value not in allowed:
            raise self.fault(name, f"one of {', '.join(allowed)}")
        return value

    def flag(self, name: str, *, default: bool) -> bool:
        value = self._members.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.fault(name, "true or false")
        return value

    def whole(self, name: str, least: int, most: int, default: int) -> int:
        value = self._members.get(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.fault(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, least: float, most: float, default: float) -> float:
        value = self._members.get(name)
        if value is None:
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.fault(name, f"a number from {least:g} to {most:g}")
        if not least <= value <= most:
            raise self.fault(name, f"a number from {least:g} to {most:g}")
        return float(value)

    def inner(self, name: str) -> Members:
        """Return the members of an object; none if it is absent."""
        value = self._members.get(name)
        if value is None:
            return Members({}, self.path_of(name))
        if not isinstance(value, dict):
            raise self.fault(name, "an object")
        return Members(value, self.path_of(name))

    def objects(self, name: str, most: int) -> list[Members]:
        """Return the objects of a list; none if it is absent."""
        value = self._members.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > most:
            raise self.fault(name, f"a list of at most {most} objects")
        found = []
        for at, each in enumerate(value):
            path = f"{self.path_of(name)}[{at}]"
            if not isinstance(each, dict):
                raise RealtimeFault(f"{path} must be an object", param=path)
            found.append(Members(each, path))
        return found

    def over(self, others: Mapping[str, Any], without: frozenset[str]) -> Members:
        """Return these members over others, objects member by member.

        Args:
            others: have effect where these have no such member.
            without: names that are left out of these.
        """
        own = {name: value for name, value in self._members.items() if name not in without}
        return Members(_laid_over(own, others), self._path)

    def fault(self, name: str, expected: str) -> RealtimeFault:
        """Make the fault of a member that is something else."""
        path = self.path_of(name)
        return RealtimeFault(
            f"{path} is {quoted(self._members.get(name))}; it must be {expected}", param=path
        )


def _laid_over(own: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(others)
    for name, value in own.items():
        below = found.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            found[name] = _laid_over(value, below)
        else:
            found[name] = value
    return found
