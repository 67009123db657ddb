"""What somebody may do, in IAM's own words: actions and the ARNs of what they are done with.

A policy allows what one of its actions and one of its resources fit, and denies all else: there is
nothing to deny besides, since no policy is laid over another.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

#: To invoke endpoints in each of the ways that there are. Who may do more is told so by name: what
#: changes the fleet starts containers.
INVOKING: Final = ("sagemaker:InvokeEndpoint*",)

EVERYTHING: Final = ("*",)

_ACTION: Final = re.compile(r"\*|[A-Za-z0-9-]{1,64}:[A-Za-z0-9*?]{1,128}")
#: All six parts of an ARN: without its region, say, it would fit nothing, and nobody would be told.
_ARN: Final = re.compile(r"arn:[!-9;-~]*:(?P<service>[!-9;-~]*):[!-9;-~]*:[!-9;-~]*:[!-~]+")
_MAX_ARN: Final = 512

#: Decisions that one policy remembers: a client asks for few endpoints, again and again.
_REMEMBERED_DECISIONS: Final = 64


def is_action(pattern: str) -> bool:
    """Whether a pattern is one of actions: ``*``, or a service, a colon and an action's name."""
    return _ACTION.fullmatch(pattern) is not None


def is_resource(pattern: str) -> bool:
    """Whether a pattern is one of resources: ``*``, or an ARN's six parts.

    SageMaker's must be in lower case, its name too, as its ARNs are: another would fit nothing.
    """
    if pattern in EVERYTHING:
        return True
    arn = _ARN.fullmatch(pattern)
    if arn is None or len(pattern) > _MAX_ARN:
        return False
    return arn["service"].lower() != "sagemaker" or pattern == pattern.lower()


class Policy:
    """What one principal may do.

    Args:
        actions: patterns of IAM's actions, such as ``sagemaker:Describe*``; their case is nothing.
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
        """Whether somebody with this policy may do something.

        Args:
            action: IAM's name of it, such as ``sagemaker:InvokeEndpoint``.
            resource: the ARN of what it is done with; ``*`` where it is nothing in particular.
        """
        if self._decisions is None:  # a file has a thousand policies, and few are asked for
            anew = _as_decision(self._actions, self._resources)
            self._decisions = _Decisions(anew, lru_cache(_REMEMBERED_DECISIONS)(anew))
        anew, remembered = self._decisions
        return (remembered if len(resource) <= _MAX_ARN else anew)(action, resource)


_Decision = Callable[[str, str], bool]


class _Decisions(NamedTuple):
    """Says what is allowed, of an action and a resource: each time anew, or as it was said."""

    anew: _Decision
    remembered: _Decision


def _as_decision(actions: tuple[str, ...], resources: tuple[str, ...]) -> _Decision:
    fits_action = _any_of(actions, re.IGNORECASE).fullmatch
    fits_resource = _any_of(resources, 0).fullmatch
    return lambda action, resource: bool(fits_action(action) and fits_resource(resource))


def _any_of(patterns: tuple[str, ...], flags: int) -> re.Pattern[str]:
    return re.compile("|".join(map(_as_regex, patterns)), flags | re.ASCII | re.DOTALL)


def _as_regex(pattern: str) -> str:
    """A pattern with ``*`` for any characters or none and ``?`` for one, as a regular expression.

    What lies between two ``*`` has one length, so the first place where it fits leaves the most to
    what comes after it: no other is tried (an atomic group), and time grows with the text alone.
    """
    first, *rest = (
        ".".join(map(re.escape, piece.split("?"))) for piece in re.split(r"\*+", pattern)
    )
    if not rest:
        return first
    *middle, last = rest
    return first + "".join(f"(?>.*?{each})" for each in middle) + f".*{last}"
