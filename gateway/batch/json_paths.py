"""Filters of records: AWS's JSONPath (``InputFilter``, ``OutputFilter``), read by RFC 9535.

The library python-jsonpath parses paths. This module selects the values itself, for two reasons.
The library makes an object with its path for each of a record's thousands of values. And a filter
must return one value: an object where names are selected from an object.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from partway.gateway.batch.limits import MAX_FILTER, UNLIMITED_RECORD_BYTES

#: A string in a path, a full stop before a bracket, or a comma before a colon. AWS's guide writes
#: the full stop, which the RFC forbids. The library parses the comma only with a space behind.
_REWRITTEN: Final = re.compile(
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(\.\s*(?=\[))|,(?=:)""", re.DOTALL
)

#: One selector of a segment: a member's name, an element's index, a slice, or all (None).
Selector: TypeAlias = str | int | slice | None


class BadFilter(ValueError):
    """A filter that is not a path, or uses an unsupported feature; the text names it."""


class NotSelected(ValueError):
    """A record that lacks an element which a filter selects; the text names it."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A filter.

    Attributes:
        segments: the selectors of each step down from the record; empty to select the whole record.
    """

    text: str
    segments: tuple[tuple[Selector, ...], ...]

    @classmethod
    def of(cls, text: str, *, slices_include_end: bool = False) -> JsonPath:
        """Read a filter.

        Args:
            text: such as ``$``, ``$[0,5:]`` or ``$['id','SageMakerOutput']``; empty for ``$``.
            slices_include_end: whether ``[0:2]`` includes element 2, as AWS's guide can be read.
                RFC 9535 §2.3.4 excludes it.

        Raises:
            BadFilter: the text is not a supported path.
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
        return not self.segments

    def check_size(self, size: int) -> None:
        """Refuse a record of which the filter would select too much.

        For example, eight times ``[*,*,*]`` selects a value 6,561 times.

        Args:
            size: bytes of the record.

        Raises:
            NotSelected: the selection could exceed ``UNLIMITED_RECORD_BYTES``.
        """
        times = math.prod(map(_times, self.segments))
        if times > 1 and size * times > UNLIMITED_RECORD_BYTES:
            raise NotSelected(
                f"{self.text} may select a value of {size} bytes {times} times; a selection "
                f"must have at most {UNLIMITED_RECORD_BYTES} bytes, so name each value once"
            )

    def selected(self, record: Any) -> Any:
        """Return the filter's selection from a record, as one value.

        A path that can lead to only one value returns that value. Any other path returns an array
        of values, in the order of its selectors. Names in the last brackets return an object of the
        members that exist.

        Args:
            record: a value of JSON.

        Raises:
            NotSelected: a name or an index on the path does not exist.
        """
        nodes, is_one = [record], True
        for number, selectors in enumerate(self.segments, 1):
            if number == len(self.segments) and _are_names(selectors):
                nodes = [_members(each, selectors) for each in nodes if isinstance(each, Mapping)]
                if is_one and not any(nodes):
                    raise NotSelected(
                        f"{self.text} selects nothing: the record has none of its names"
                    )
                break
            if is_one:
                _check_there(self.text, nodes[0], selectors)
            is_one = is_one and len(selectors) == 1 and isinstance(selectors[0], str | int)
            nodes = [found for node in nodes for each in selectors for found in _found(node, each)]
        return nodes[0] if is_one else nodes


def _read(text: str) -> tuple[tuple[Selector, ...], ...]:
    """Return the segments of a path.

    Raises:
        BadFilter: the text is no path, or has selectors that are not supported.
    """
    from jsonpath import JSONPath, JSONPathEnvironment  # imported only by jobs with a filter: 50 ms
    from jsonpath.exceptions import JSONPathError
    from jsonpath.segments import JSONPathChildSegment

    written = _REWRITTEN.sub(_rewritten, text) or "$"
    try:
        path = JSONPathEnvironment(strict=True).compile(written)
    except JSONPathError as error:
        why, *_ = str(error).splitlines()
        raise BadFilter(
            f"{text!r} is not a JSONPath: {why}; it must look like $, $[1:], $.features or "
            "$['id','SageMakerOutput']"
        ) from None
    if not isinstance(path, JSONPath):
        raise BadFilter(f"{text!r} has several paths; a filter must be one path")
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
        f"the filter {text!r} has {str(selector)!r}; a step of a filter must be a name, a number, "
        "a range or *"
    )


def _with_end(selector: Selector) -> Selector:
    if not isinstance(selector, slice) or selector.stop is None:
        return selector
    step = selector.step or 1
    beyond = selector.stop + (1 if step > 0 else -1)
    # There is no index behind the last element or before the first: the end is left open.
    is_open = selector.stop == -1 if step > 0 else selector.stop == 0
    return slice(selector.start, None if is_open else beyond, selector.step)


def _times(selectors: tuple[Selector, ...]) -> int:
    """Return how often a segment may select the same value."""
    numbers = [each for each in selectors if isinstance(each, int) and each >= 0]
    names = [each for each in selectors if isinstance(each, str)]
    return 1 if len({*numbers, *names}) == len(selectors) else len(selectors)


def _are_names(selectors: tuple[Selector, ...]) -> bool:
    return len(selectors) > 1 and all(isinstance(each, str) for each in selectors)


def _members(node: Mapping[str, Any], names: tuple[Selector, ...]) -> dict[str, Any]:
    return {name: node[name] for name in names if isinstance(name, str) and name in node}


def _check_there(text: str, node: Any, selectors: tuple[Selector, ...]) -> None:
    """Raise NotSelected for a missing name or index, as AWS's API does with indexes."""
    for each in selectors:
        match each:
            case str() if not isinstance(node, Mapping):
                raise NotSelected(f"{text}: {each!r} is a name, and the value is not an object")
            case str() if each not in node:
                raise NotSelected(f"{text}: there is no {each!r}")
            case int() if not isinstance(node, list):
                raise NotSelected(f"{text}: {each} is a number, and the value is not an array")
            case int() if not -len(node) <= each < len(node):
                raise NotSelected(
                    f"{text}: there is no element {each}; the number of elements is {len(node)}"
                )
            case slice() if not isinstance(node, list):
                raise NotSelected(f"{text}: a range needs an array, and the value is not an array")
            case None if not isinstance(node, list | Mapping):
                raise NotSelected(
                    f"{text}: * needs an array or an object, and the value is neither"
                )


def _found(node: Any, selector: Selector) -> Iterator[Any]:
    """Yield the values that a selector selects (RFC 9535 §2.3); none where the types do not fit."""
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
