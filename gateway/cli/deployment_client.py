"""The requests of ``partway deploy`` and ``partway delete`` to the gateway, and their waits."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from partway.gateway.cli.admin_client import (
    GatewayNotAsked,
    ask,
    endpoints_of,
    not_understood,
    whole,
)
from partway.gateway.fleet.status import EndpointState, EndpointStatus

#: Seconds between two requests for an endpoint's state.
_LOOK: Final = 0.5

#: Seconds for a change to be stored and begun. Model data may be on a slow file system, and other
#: changes go first.
_CHANGE_PATIENCE: Final = 60.0

_CHANGING: Final = frozenset(
    {EndpointState.CREATING, EndpointState.UPDATING, EndpointState.DELETING}
)


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    """The state of an endpoint, by DescribeEndpoint.

    Attributes:
        name: the endpoint's own, which may differ in case from the name that was asked for.
        created: when the endpoint was made, in epoch seconds.
        config: the name of the configuration that it serves by.
        reason: why it has failed, or its last change has; empty otherwise.
    """

    name: str
    created: float
    state: EndpointState
    config: str
    reason: str

    @property
    def is_changing(self) -> bool:
        return self.state in _CHANGING

    @classmethod
    def read(cls, said: dict[str, Any]) -> Self:
        """Read the gateway's answer.

        Raises:
            KeyError, ValueError: the answer is not of this form.
        """
        return cls(
            str(said["EndpointName"]),
            float(said["CreationTime"]),
            EndpointState(said["EndpointStatus"]),
            str(said["EndpointConfigName"]),
            str(said.get("FailureReason", "")),
        )


class AskedDeployment:
    """One endpoint of a gateway, with its model and configuration.

    Args:
        name: the endpoint's, in whatever case.

    Attributes:
        name: the endpoint's own, once the gateway has told it.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._directory = directory

    def deploy(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Create or update the endpoint; return the objects that were made for it.

        Raises:
            GatewayNotAsked: the gateway has refused.
        """
        return self._asked("PUT", asked)

    def delete(self) -> list[str]:
        """Delete the endpoint; return the names of the deleted objects.

        Raises:
            GatewayNotAsked: the gateway has refused.
        """
        return [str(each) for each in self._asked("DELETE")["Deleted"]]

    def said(self) -> EndpointSaid | None:
        """Ask for the endpoint's state; None without an endpoint of the name."""
        said = self._asked("GET")["endpoint"]
        try:
            found = None if said is None else EndpointSaid.read(said)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise not_understood(self._directory) from None
        if found is not None:
            self.name = found.name
        return found

    def looks(self) -> Iterator[EndpointSaid | None]:
        """Yield the endpoint's state, twice a second."""
        while True:
            yield self.said()
            time.sleep(_LOOK)

    def status(self) -> tuple[EndpointStatus, ...]:
        """The endpoint's state in the fleet, with its instances; empty if the fleet lacks it."""
        name = self.name.lower()  # names that differ only in case mean one endpoint
        return tuple(each for each in endpoints_of(self._directory) if each.name.lower() == name)

    def log(self, instance: str, lines: int) -> bytes:
        """Return the last lines that an instance has printed; empty if none are kept."""
        query = {"lines": str(lines), "instance": instance}
        path = ("endpoints", self.name, "logs")
        try:
            return whole(self._directory, ask(self._directory, "GET", *path, query=query))
        # the instance printed nothing; the reason of its failure is known anyway
        except GatewayNotAsked:
            return b""

    def _asked(self, method: str, body: object = None) -> dict[str, Any]:
        answer = whole(
            self._directory,
            ask(
                *(self._directory, method, "deployments", self.name),
                body=body,
                patience=_CHANGE_PATIENCE,
            ),
        )
        try:
            said = json.loads(answer)
        except ValueError:
            raise not_understood(self._directory) from None
        if not isinstance(said, dict):
            raise not_understood(self._directory)
        return said
