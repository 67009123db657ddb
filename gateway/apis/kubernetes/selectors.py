"""Label selectors and field selectors, in Kubernetes' syntax."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from partway.gateway.apis.kubernetes.custom_object import CustomObject
from partway.gateway.apis.kubernetes.errors import BadKubernetesRequest
from partway.gateway.apis.kubernetes.limits import MAX_SELECTOR, MAX_SELECTOR_TERMS
from partway.gateway.plain_text import cut, safe

#: Whether an object is selected.
Selector: TypeAlias = Callable[[CustomObject], bool]

_KEY: Final = r"[A-Za-z0-9./_-]{1,317}"
_VALUE: Final = r"[A-Za-z0-9._-]{0,63}"
_REQUIREMENT: Final = re.compile(
    rf"\s*+(?:(?P<absent>!)\s*+(?P<lacks>{_KEY})"
    rf"|(?P<key>{_KEY})\s*+(?:(?P<op>==?|!=)\s*+(?P<value>{_VALUE})"
    rf"|(?<=\s)(?P<set>in|notin)\s*+\((?P<values>[^()]*+)\))?)\s*+(?:,|$)"
)
_FIELD: Final = re.compile(r"(?P<field>[^=!]+)(?P<op>==?|!=)(?P<value>.*)")

_SHOWN: Final = 64


def selector_of(parameters: Mapping[str, str]) -> Selector:
    """Return the selector of the query's ``labelSelector`` and ``fieldSelector``.

    Raises:
        BadKubernetesRequest: a selector cannot be parsed, or they have too many terms.
    """
    tests = [
        *_label_tests(_bounded(parameters, "labelSelector")),
        *_field_tests(_bounded(parameters, "fieldSelector")),
    ]
    if len(tests) > MAX_SELECTOR_TERMS:
        raise BadKubernetesRequest(
            f"labelSelector and fieldSelector have {len(tests)} terms; they must have at most "
            f"{MAX_SELECTOR_TERMS} together"
        )
    return lambda each: all(test(each) for test in tests)


def _bounded(parameters: Mapping[str, str], name: str) -> str:
    text = parameters.get(name, "")
    if len(text) > MAX_SELECTOR:
        raise BadKubernetesRequest(f"{name} must have at most {MAX_SELECTOR} characters")
    return text


def _label_tests(text: str) -> list[Selector]:
    tests: list[Selector] = []
    at = 0
    while at < len(text):
        found = _REQUIREMENT.match(text, at)
        if found is None:
            raise BadKubernetesRequest(
                f"labelSelector: {cut(safe(text[at:]), _SHOWN)!r} cannot be read; it must look "
                "like app=chat,tier!=test,env in (a,b),!old"
            )
        tests.append(_label_test(found))
        at = found.end()
    return tests


def _label_test(found: re.Match[str]) -> Selector:
    key, value = found["key"] or found["lacks"], found["value"]
    values = {each.strip() for each in (found["values"] or "").split(",")}
    match found["absent"] or found["op"] or found["set"]:
        case "!":
            return lambda each: key not in each.labels
        case "!=":
            return lambda each: each.labels.get(key) != value
        case "=" | "==":
            return lambda each: each.labels.get(key) == value
        case "in":
            return lambda each: each.labels.get(key) in values
        case "notin":
            return lambda each: each.labels.get(key) not in values
        case _:
            return lambda each: key in each.labels


def _field_tests(text: str) -> list[Selector]:
    return [_field_test(each.strip()) for each in text.split(",") if each.strip()]


def _field_test(text: str) -> Selector:
    found = _FIELD.fullmatch(text)
    if found is None or found["field"] not in ("metadata.name", "metadata.namespace"):
        raise BadKubernetesRequest(
            f"fieldSelector: {cut(safe(text), _SHOWN)!r} is not supported; it must select by "
            "metadata.name or metadata.namespace"
        )
    is_name, value, is_equal = (
        found["field"] == "metadata.name",
        found["value"],
        found["op"] != "!=",
    )
    return lambda each: ((each.name if is_name else each.namespace) == value) is is_equal
