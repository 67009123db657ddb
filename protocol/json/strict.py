"""JSON as strangers send it: RFC 8259 to the letter, no member twice, numbers as is asked."""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json.encoder import encode_basestring_ascii
from typing import Any, Final, NoReturn

import orjson


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector in the block, on all threads.

    The collector looks at all containers as they become many. It would look at those of a nested
    tensor again and again. That takes five times as long as to make them, and it keeps the
    interpreter for a tenth of a second. So they are made, used and let go in one block.

    Blocks may overlap: the one that found the collector on has it on again at its end.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


#: Half of a pair may be among the escapes; there is no UTF-8 of it (RFC 8259 §8.2).
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")


class NotJson(ValueError):
    """A text that is not JSON.

    Attributes:
        why: what was wrong.
        at: how many characters were right; None where that is not known.
    """

    def __init__(self, why: str, at: int | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.at = at


def parsed(text: bytes, number: Callable[[str], object] = float) -> object:
    """JSON as Python has it.

    Args:
        text: in UTF-8.
        number: what becomes of each number's text, whole ones too: none is too long for Python.

    Raises:
        NotJson: the text is none (RFC 8259), or an object has a member twice.
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
    """JSON as Python has it, by the library that is fast, while the garbage collector is paused.

    Raises:
        ValueError: the text is not JSON, or orjson does not read one of its numbers or strings.
    """
    with collector_paused():
        return orjson.loads(text)


def string_of(text: str) -> bytes:
    """A string as JSON has it, in ASCII: so half of a surrogate pair is written too."""
    return encode_basestring_ascii(text).encode()


def check_unicode(text: bytes, value: object) -> None:
    """Refuse strings that are half of a pair: nobody could write them down again.

    Args:
        text: JSON.
        value: the same as Python has it; what JSON has nothing for is not looked at.

    Raises:
        NotJson: there is one.
    """
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False, default=str).encode()
        except UnicodeEncodeError:
            raise NotJson("a string has half of a surrogate pair, which is no Unicode") from None


def _refused(constant: str) -> NoReturn:
    raise NotJson(f"{constant} is not a number in JSON (RFC 8259 §6)")


def _no_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotJson("an object has a member twice")
    return members
