"""Strict JSON parsing: RFC 8259 to the letter, no repeated members, numbers as the caller wants."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NoReturn

import orjson

#: Escapes may form half of a surrogate pair, which has no UTF-8 form (RFC 8259 §8.2).
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector in the block, on all threads.

    The collector scans all containers as they become many. It would scan the lists of a nested
    tensor again and again. That takes five times as long as creating them, and it holds the
    interpreter for a tenth of a second. So the lists are created, used and freed in one block.

    Blocks may overlap: the one that found the collector on turns it on again at its end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class NotJson(ValueError):
    """A text that is not JSON.

    Attributes:
        at: number of characters before the fault; None if unknown.
    """

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


def parsed(text: bytes, number: Callable[[str], object] = float) -> object:
    """Parse JSON into Python objects.

    Args:
        text: in UTF-8.
        number: converts each number's text, of whole numbers too, so that no number is too long for
            Python.

    Raises:
        NotJson: the text is not JSON (RFC 8259), or an object has a member twice.
    """
    try:
        return json.loads(
            text.decode(),
            object_pairs_hook=_no_repetition,
            parse_float=number,
            parse_int=number,
            parse_constant=_refused,
        )
    except UnicodeDecodeError as error:
        raise NotJson("bytes that are not UTF-8", error.start) from None
    except json.JSONDecodeError as error:
        raise NotJson(error.msg, error.pos) from None
    except RecursionError:
        raise NotJson("it is nested too deeply") from None


def loads(text: bytes) -> Any:
    """Parse JSON with the fast library, while the garbage collector is paused.

    Raises:
        ValueError: the text is not JSON, or orjson does not read one of its numbers or strings.
    """
    with collector_paused():
        return orjson.loads(text)


def string_of(text: str) -> bytes:
    """Write a JSON string in ASCII, so that half of a surrogate pair can be written too."""
    return encode_basestring_ascii(text).encode()


def check_unicode(text: bytes, value: object) -> None:
    """Refuse strings with half of a surrogate pair: they could not be encoded again.

    Values of other types than JSON's are ignored.

    Raises:
        NotJson: there is such a string.
    """
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise NotJson("a string has half of a surrogate pair, which is not Unicode") from None


def _refused(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is not a number in JSON (RFC 8259 §6)")


def _no_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotJson("an object has a member twice")
    return members
