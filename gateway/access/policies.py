"""Policies in IAM's words: allowed actions, and the ARNs of the resources they apply to.

A policy allows a pair of action and resource if both match one of its patterns, and denies all
others. A principal has one policy only, so there are no explicit denials.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

#: All actions that invoke endpoints. Further actions must be named: changes of the fleet start
#: containers.
INVOKING: Final = ("sagemaker:InvokeEndpoint*",)

EVERYTHING: Final = ("*",)

_ACTION: Final = re.compile(r"\*|[A-Za-z0-9-]{1,64}:[A-Za-z0-9*?]{1,128}")
#: An ARN with all six parts: one without, say, its region would match nothing without notice.
_ARN: Final = re.compile(r"arn:[!-9;-~]*:(?P<service>[!-9;-~]*):[!-9;-~]*:[!-9;-~]*:[!-~]+")
_MAX_ARN: Final = 512

#: Remembered decisions of one policy: a client asks for few endpoints, again and again.
_REMEMBERED_DECISIONS: Final = 64


def is_action(pattern: str) -> bool:
    """Say whether a pattern can match actions: ``*``, or a service, a colon and an action."""
    return _ACTION.fullmatch(pattern) is not None


def is_resource(pattern: str) -> bool:
    """Say whether a pattern can match resources: ``*``, or an ARN's six parts.

    A SageMaker ARN must be in lower case, as the gateway's ARNs are: another would match nothing.
    """
    if pattern in EVERYTHING:
        return True
    arn = _ARN.fullmatch(pattern)
    if arn is None or len(pattern) > _MAX_ARN:
        return False
    return arn["service"].lower() != "sagemaker" or pattern == pattern.lower()


class Policy:
    """The policy of one principal.

    Args:
        actions: patterns of IAM's actions, such as ``sagemaker:Describe*``; case does not matter.
        resources: patterns of ARNs.
    """

    __slots__ = ("_actions", "_decisions", "_resources")

    def __init__(
        self, actions: tuple[str, ...] = INVOKING, resources: tuple[str, ...] = EVERYTHING
    ) -> None:
        self._actions = actions
        self._resources = resources
        self._decisions: _Decisions | None = None

    def allows(self, action: str, resource: str) -> bool:
        """Say whether the policy allows an action on a resource.

        Args:
            action: IAM's name of it, such as ``sagemaker:InvokeEndpoint``.
            resource: the ARN of the resource; ``*`` for none in particular.
        """
        if self._decisions is None:  # compiled late: few of many policies are used
            anew = _as_decision(self._actions, self._resources)
            self._decisions = _Decisions(anew, lru_cache(_REMEMBERED_DECISIONS)(anew))
        anew, remembered = self._decisions
        return (remembered if len(resource) <= _MAX_ARN else anew)(action, resource)

    def allows_somewhere(self, action: str) -> bool:
        """Say whether the policy allows an action on any resource at all."""
        return _any_of(self._actions, re.IGNORECASE).fullmatch(action) is not None


_Decision = Callable[[str, str], bool]


class _Decisions(NamedTuple):
    """The decision about an action and a resource: computed anew, or remembered."""

    anew: _Decision
    remembered: _Decision


def _as_decision(actions: tuple[str, ...], resources: tuple[str, ...]) -> _Decision:
    fits_action = _any_of(actions, re.IGNORECASE).fullmatch
    fits_resource = _any_of(resources, 0).fullmatch
    return lambda action, resource: bool(fits_action(action) and fits_resource(resource))


def _any_of(patterns: tuple[str, ...], flags: int) -> re.Pattern[str]:
    return re.compile("|".join(map(_as_regex, patterns)), flags | re.ASCII | re.DOTALL)


def _as_regex(pattern: str) -> str:
    """Return a pattern as a regular expression; ``*`` matches any characters, and ``?`` one.

    Text between two ``*`` has a fixed length, so its first match leaves the most for the rest. No
    other match is tried (an atomic group), and the time grows only linearly with the text.
    """
    first, *rest = (
        ".".join(map(re.escape, piece.split("?"))) for piece in re.split(r"\*+", pattern)
    )
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{each})" for each in middle) + f".*{last}"
