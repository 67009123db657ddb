"""Permissions of the principal that made an object, checked long after that request."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.access.authentication import not_authorized
from partway.gateway.arns import Arns


class MakersLeave:
    """Says whether an object's maker may perform an action now.

    Args:
        may: whether a principal may perform an action; takes its name, an action and an ARN.
        arns: makes the principals' ARNs.
        made: the kind of object, for refusals: ``the model``.
        remedy: what to do about an object whose maker is unknown.
    """

    def __init__(
        self, may: Callable[[str, str, str], bool], arns: Arns, made: str, remedy: str
    ) -> None:
        self._may = may
        self._arns = arns
        self._made = made
        self._remedy = remedy

    def refusal(self, maker: str, action: str, resource: str) -> str:
        """Return why a maker may not perform an action; empty if it may.

        Args:
            maker: the principal's name; empty if it is unknown.
        """
        if self._may(maker, action, resource):
            return ""
        if not maker:
            return (
                f"{self._made} was created without authentication, or by an older version of the "
                f"gateway: its creator, whose permissions it needs, is unknown; {self._remedy}"
            )
        return not_authorized(self._arns.of_principal(maker), action, resource)
