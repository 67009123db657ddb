"""The reader of settings: it converts a file, a variable or a flag to typed values, or refuses it.

One exception has all faults, a line for each::

    partway.toml: endpoints.echo.url: 'x' was given; it must be an http:// URL with host and port
    partway.toml: endpoints.echo.lifetme: this key is unknown; the nearest known one is lifetime
    PARTWAY_PORT: 'http' was given; it must be a whole number from 0 to 65535

A key is named by its whole path; ``rule#2.close.code`` is in the second of the ``[[rule]]`` tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from partway.gateway.configuration.expected import adapter, keys_of, parts_of, taken_apart, words_of
from partway.gateway.configuration.messages import (
    Place,
    SettingsError,
    TableRefused,
    error_of,
    given,
    may_be_shown,
    unknown,
    unknown_among,
)
from partway.gateway.storage.files import read_bounded
from partway.protocol.limits import MIB

_T = TypeVar("_T")

#: Bytes of a file, by default: eight thousand endpoints fit.
MAX_FILE_BYTES: Final = 1 * MIB

#: pydantic's names for an unknown key, and for a missing one.
_UNKNOWN: Final = "unexpected_keyword_argument"
_MISSING: Final = "missing"
#: pydantic appends this to a table's key if the key itself is wrong.
_NAME: Final = "[key]"
#: pydantic reports this for a value that is not one of the allowed values.
_NO_CHOICE: Final = "literal_error"


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed TOML file.

    Attributes:
        members: its keys and their values.
        secret: whether its values, and keys that could be values, are kept out of messages.
    """

    called: str
    members: Mapping[str, Any]
    secret: bool = False

    def as_table(self, kind: type[_T]) -> _T:
        """Return the file as a dataclass; see :mod:`partway.gateway.configuration.expected`.

        Raises:
            SettingsError: the file is invalid.
        """
        sought = _Sought(kind, kinds=True, secret=self.secret)
        value: _T = _checked(sought, self.members, self.called)
        return value

    def refuse(self, faults: Iterable[tuple[Place, str]]) -> None:
        """Refuse the file for faults that concern several keys.

        Args:
            faults: place and text of each.

        Raises:
            SettingsError: there is one.
        """
        if found := list(faults):
            raise error_of(self.called, found)


def read_toml(
    path: Path, most: int = MAX_FILE_BYTES, *, called: str = "", secret: bool = False
) -> Document:
    """Read a file, which may come from an untrusted user.

    Args:
        called: its name in messages; empty for its path.
        secret: whether messages must not repeat its content.

    Raises:
        SettingsError: it cannot be read, is no regular file, has more bytes, demands too much of
            the parser, or is not TOML; the message names the line.
    """
    import tomllib

    from partway.gateway.configuration.toml_bounds import TooMuch, check_bounds

    called = called or str(path)
    try:
        content = read_bounded(path, most)
    except OSError as error:
        raise SettingsError(f"{called}: cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise SettingsError(f"{called}: this file must have at most {most} bytes") from None
    try:
        text = content.decode()
        check_bounds(text)
        return Document(called, tomllib.loads(text), secret)
    except TooMuch as error:
        raise SettingsError(f"{called}: {error}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        why = f"line {line} has a byte that is not UTF-8"
    except tomllib.TOMLDecodeError as error:
        lines = content.count(b"\n") + 1
        said, _, place = str(error).rpartition(" (at ")
        place = place.removesuffix(")")
        if not place.startswith("line"):  # it is the end of the document
            place = f"line {lines}, at the end"
        # The parser's message may quote the file; the place does not.
        why = place if secret else f"{place}: {said}"
    except ValueError:  # sys.set_int_max_str_digits()
        why = "a number has too many digits"
    raise SettingsError(f"{called}: this is not TOML: {why}")


def checked(hint: Any, value: object, where: str) -> Any:
    """Convert a value of a variable or a flag, or a table from a caller, to its type.

    Args:
        hint: the type, with its note.
        value: in TOML's types.
        where: its name in messages, such as ``PARTWAY_PORT``.

    Raises:
        SettingsError: the value is invalid.
    """
    return _checked(_Sought(hint), value, where)


@dataclass(frozen=True, slots=True)
class _Sought:
    """The required type of a value, and the limits on messages about it.

    Attributes:
        kinds: whether messages name the type of a found value; a variable is always a string.
        secret: whether messages omit the found value.
    """

    hint: Any
    kinds: bool = False
    secret: bool = False

    def fault(self, error: Mapping[str, Any]) -> tuple[Place, str]:
        place: Place = error["loc"][1:]  # without the index in the list around the value
        reason = error.get("ctx", {}).get("error", "")
        if error["type"] == _UNKNOWN:
            return self._unknown(place[:-1], str(place[-1]))
        if isinstance(reason, TableRefused):
            return reason.within(place)
        if place[-1:] == (_NAME,) and len(names := parts_of(self._type_at(place[:-2]))) > 1:
            found = given(error["input"], secret=self.secret)
            return place[:-1], f"the name {found}; it must be {words_of(names[0])}"
        wanted = words_of(self._type_at(place))
        if error["type"] == _MISSING:
            return place, f"this key is missing; it must be {wanted}"
        secret = self.secret or self._is_secret(place)
        why = f" ({reason})" if str(reason) and not secret else ""
        return place, f"{self._found(error, secret)}; it must be {wanted}{why}"

    def _unknown(self, table: Place, key: str) -> tuple[Place, str]:
        known = keys_of(self._type_at(table)) or ()
        if self.secret and not may_be_shown(key):
            return table, unknown_among(known)
        return (*table, key), unknown(key, known)

    def _found(self, error: Mapping[str, Any], secret: bool) -> str:
        kind, value = error["type"], error["input"]
        is_wrong = kind.endswith("_type") or (kind == _NO_CHOICE and not isinstance(value, str))
        return given(value, kind=self.kinds and is_wrong, secret=secret)

    def _is_secret(self, place: Place) -> bool:
        """Say whether the value at a place, or a table around it, is secret."""
        notes = (taken_apart(hint)[1] for hint in self._types_to(place))
        return any(note is not None and note.secret for note in notes)

    def _type_at(self, place: Place) -> Any:
        *_, hint = self._types_to(place)
        return hint

    def _types_to(self, place: Place) -> Iterator[Any]:
        """Yield the types on the way to a place, from the whole file's to its own."""
        hint = self.hint
        yield hint
        for step in place:
            keys = keys_of(hint)
            hint = parts_of(hint)[-1] if keys is None else keys[str(step)]
            yield hint


def _checked(sought: _Sought, value: object, where: str) -> Any:
    check = adapter(sought.hint)
    from pydantic_core import ValidationError

    try:
        return check.validate_python([value])[0]
    except ValidationError as error:
        found = error.errors(include_url=False)
    # pydantic reports a table's keys in the order of their declaration.
    order = _order_in(value)
    raise error_of(where, sorted(map(sought.fault, found), key=lambda fault: order(fault[0])))


def _order_in(document: object) -> Callable[[Place], list[int]]:
    """Return a sort key for places by their order in a document; missing keys come last."""
    ranks: dict[int, dict[str, int]] = {}

    def order(place: Place) -> list[int]:
        found, value = [], document
        for step in place:
            if isinstance(value, dict):
                known = ranks.get(id(value))
                if known is None:
                    known = ranks[id(value)] = {key: at for at, key in enumerate(value)}
                found.append(known.get(str(step), len(value)))
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int):
                found.append(step)
                value = value[step]
        return found

    return order
