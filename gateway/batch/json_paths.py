"""Filters of records: AWS's JSONPath (``InputFilter``, ``OutputFilter``), read by RFC 9535.

Paths are read by python-jsonpath. What a path selects is found here: a record has thousands of
values, and for each the library makes an object that knows its way; and what is selected has to be
one value again, an object where names are chosen from an object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from partway.gateway.batch.limits import MAX_FILTER, UNLIMITED_RECORD_BYTES

#: A string of a path; or the full stop in front of a bracket, which AWS's guide writes and the RFC
#: does not; or a comma before a colon, which the library reads only with a space between them.
_REWRITTEN: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(\.\s*(?=\[))|,(?=:)""", re.DOTALL
)

#: One selector of a segment: a member's name, an element's number, some elements, or all (None).
Selector: TypeAlias = str | int | slice | None


class BadFilter(ValueError):
    """A filter that is no path, or has more in it than is done here; the text says what."""


class NotSelected(ValueError):
    """A record that has not what a filter selects; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A filter.

    Attributes:
        text: as it was given.
        segments: the selectors of each step down from the record; none selects the record as it is.
    """

    text: str
    segments: tuple[tuple[Selector, ...], ...]

    @classmethod
    def of(cls, text: str, *, slices_include_end: bool = False) -> JsonPath:
        """Read a filter.

        Args:
            text: such as ``$``, ``$[0,5:]`` or ``$['id','SageMakerOutput']``; empty for ``$``.
            slices_include_end: whether ``[0:2]`` has the element 2 too, as AWS's guide can be read;
                by RFC 9535 §2.3.4 it has not.

        Raises:
            BadFilter: it cannot be done.
        """
        if len(text) > MAX_FILTER:
            raise BadFilter(
                f"{text!r} has {len(text)} characters; a filter must have at most {MAX_FILTER}"
            )
        segments = _read(text)
        if slices_include_end:
            segments = tuple(tuple(map(_with_end, each)) for each in segments)
        return cls(text, segments)

    @property
    def is_whole(self) -> bool:
        """Whether it selects a record as it is."""
        return not self.segments

    def check_size(self, size: int) -> None:
        """Refuse a record of which too much would be selected.

        Eight times ``[*,*,*]`` select a value 6,561 times.

        Args:
            size: bytes of the record.

        Raises:
            NotSelected: that could be over ``UNLIMITED_RECORD_BYTES``.
        """
        times = math.prod(map(_times, self.segments))
        if times > 1 and size * times > UNLIMITED_RECORD_BYTES:
            raise NotSelected(
                f"{self.text} may select a value {times} times, of {size} bytes; what is selected "
                f"must have at most {UNLIMITED_RECORD_BYTES} bytes: name each value once"
            )

    def selected(self, record: Any) -> Any:
        """What the filter selects of a record, as one value.

        A path that can lead to one value alone selects that. Any other selects an array of values,
        in the order of its selectors; but names in the last brackets select an object of those
        members that are there.

        Args:
            record: a value of JSON.

        Raises:
            NotSelected: a name or a number that the path leads by is not there.
        """
        nodes, is_one = [record], True
        for number, selectors in enumerate(self.segments, 1):
            if number == len(self.segments) and _are_names(selectors):
                nodes = [_members(each, selectors) for each in nodes if isinstance(each, Mapping)]
                if is_one and not any(nodes):
                    raise NotSelected(f"{self.text} selects nothing: none of its names is there")
                break
            if is_one:
                _check_there(self.text, nodes[0], selectors)
            is_one = is_one and len(selectors) == 1 and isinstance(selectors[0], str | int)
            nodes = [found for node in nodes for each in selectors for found in _found(node, each)]
        return nodes[0] if is_one else nodes


def _read(text: str) -> tuple[tuple[Selector, ...], ...]:
    """The segments of a path.

    Raises:
        BadFilter: it is none, or has selectors that are not done.
    """
    from jsonpath import JSONPath, JSONPathEnvironment  # for who filters: 50 ms
    from jsonpath.exceptions import JSONPathError
    from jsonpath.segments import JSONPathChildSegment

    written = _REWRITTEN.sub(_rewritten, text) or "$"
    try:
        path = JSONPathEnvironment(strict=True).compile(written)
    except JSONPathError as error:
        why, *_ = str(error).splitlines()
        raise BadFilter(
            f"{text!r} is no JSONPath: {why}; it must be such as $, $[1:], $.features or "
            "$['id','SageMakerOutput']"
        ) from None
    if not isinstance(path, JSONPath):
        raise BadFilter(f"{text!r} is several paths; it must be one")
    for each in path.segments:
        if not isinstance(each, JSONPathChildSegment):
            raise BadFilter(f"{text!r} has '..'; a filter must name each step")
    return tuple(
        tuple(_selector(text, one) for one in segment.selectors) for segment in path.segments
    )


def _rewritten(found: re.Match[str]) -> str:
    string, full_stop = found.groups()
    return string or ("" if full_stop else ", ")


def _selector(text: str, selector: Any) -> Selector:
    from jsonpath.selectors import IndexSelector, NameSelector, SliceSelector, WildcardSelector

    match selector:
        case NameSelector():
            return selector.name
        case IndexSelector():
            return selector.index
        case SliceSelector():
            return selector.slice
        case WildcardSelector():
            return None
    raise BadFilter(
        f"{text!r} has {str(selector)!r}; a filter must have names, numbers, ranges and * alone"
    )


def _with_end(selector: Selector) -> Selector:
    """A range that has its end too."""
    if not isinstance(selector, slice) or selector.stop is None:
        return selector
    step = selector.step or 1
    beyond = selector.stop + (1 if step > 0 else -1)
    # Behind the last element, or before the first, there is no number: the end is left open.
    is_open = selector.stop == -1 if step > 0 else selector.stop == 0
    return slice(selector.start, None if is_open else beyond, selector.step)


def _times(selectors: tuple[Selector, ...]) -> int:
    """How often a segment may select the same value."""
    numbers = [each for each in selectors if isinstance(each, int) and each >= 0]
    names = [each for each in selectors if isinstance(each, str)]
    return 1 if len({*numbers, *names}) == len(selectors) else len(selectors)


def _are_names(selectors: tuple[Selector, ...]) -> bool:
    return len(selectors) > 1 and all(isinstance(each, str) for each in selectors)


def _members(node: Mapping[str, Any], names: tuple[Selector, ...]) -> dict[str, Any]:
    return {name: node[name] for name in names if isinstance(name, str) and name in node}


def _check_there(text: str, node: Any, selectors: tuple[Selector, ...]) -> None:
    """Refuse a name or a number that is not there, as AWS's API does with numbers.

    Raises:
        NotSelected: the message says which.
    """
    for each in selectors:
        match each:
            case str() if not isinstance(node, Mapping):
                raise NotSelected(f"{text}: {each!r} is a name, and the value is no object")
            case str() if each not in node:
                raise NotSelected(f"{text}: there is no {each!r}")
            case int() if not isinstance(node, list):
                raise NotSelected(f"{text}: {each} is a number, and the value is no array")
            case int() if not -len(node) <= each < len(node):
                raise NotSelected(f"{text}: there is no {each}; there are {len(node)}")
            case slice() if not isinstance(node, list):
                raise NotSelected(f"{text}: a range is of an array, and the value must be one")
            case None if not isinstance(node, list | Mapping):
                raise NotSelected(
                    f"{text}: * is of an array or an object, and the value is neither"
                )


def _found(node: Any, selector: Selector) -> Iterator[Any]:
    """What a selector selects of a value (RFC 9535 §2.3); nothing where it does not fit."""
    match selector:
        case str():
            if isinstance(node, Mapping) and selector in node:
                yield node[selector]
        case int():
            if isinstance(node, list) and -len(node) <= selector < len(node):
                yield node[selector]
        case slice():
            if isinstance(node, list) and selector.step != 0:
                yield from node[selector]
        case None:
            if isinstance(node, Mapping):
                yield from node.values()
            elif isinstance(node, list):
                yield from node
