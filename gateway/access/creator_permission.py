"""Leave of the principal that made something, asked long after the principal's request."""

from __future__ import annotations

from collections.abc import Callable

from partway.gateway.access.authentication import not_authorized
from partway.gateway.arns import Arns


class MakersLeave:
    """Says whether makers may do something at this moment.

    Args:
        may: whether a principal may do something: its name, an action, an ARN.
        arns: makes the principals' names.
        made: the kind of thing that was made, for refusals: ``the model``.
        remedy: what to do about one whose maker is unknown.
    """

    def __init__(
        self, may: Callable[[str, str, str], bool], arns: Arns, made: str, remedy: str
    ) -> None:
        self._may = may
        self._arns = arns
        self._made = made
        self._remedy = remedy

    def refusal(self, maker: str, action: str, resource: str) -> str:
        """Why a maker may not do something; empty if it may.

        Args:
            maker: the principal's name; empty if it is unknown.
            action: in IAM's words.
            resource: its ARN.
        """
        if self._may(maker, action, resource):
            return ""
        if not maker:
            return (
                f"{self._made} was made without authentication, or by an older version of the "
                f"gateway, so that nobody can be asked for leave; {self._remedy}"
            )
        return not_authorized(self._arns.of_principal(maker), action, resource)
