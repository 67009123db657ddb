"""What ``partway deploy`` and ``partway delete`` ask the gateway, and how they wait."""

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

#: Seconds between two looks at how an endpoint is.
_LOOK: Final = 0.5

#: Seconds for a change to be written down and begun: model data may be on a file system that is
#: slow, and other changes go first.
_CHANGE_PATIENCE: Final = 60.0

_CHANGING: Final = frozenset(
    {EndpointState.CREATING, EndpointState.UPDATING, EndpointState.DELETING}
)


@dataclass(frozen=True, slots=True)
class EndpointSaid:
    """What DescribeEndpoint says of an endpoint.

    Attributes:
        name: its own, which may differ in case from the name that was asked for.
        created: when it was made, in epoch seconds.
        state: how it is.
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
        """Whether it is on its way to somewhere."""
        return self.state in _CHANGING

    @classmethod
    def read(cls, said: dict[str, Any]) -> Self:
        """Take what the gateway has answered.

        Raises:
            KeyError, ValueError: it is something else.
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
        directory: the gateway's data directory.
        name: the endpoint's, in whatever case.

    Attributes:
        name: the endpoint's own, once the gateway has said it.
    """

    def __init__(self, directory: Path, name: str) -> None:
        self.name = name
        self._directory = directory

    def deploy(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Have the endpoint be what is asked for; returns what was made for it.

        Raises:
            GatewayNotAsked: it has been refused.
        """
        return self._asked("PUT", asked)

    def delete(self) -> list[str]:
        """Have the endpoint go; returns what goes.

        Raises:
            GatewayNotAsked: it has been refused.
        """
        return [str(each) for each in self._asked("DELETE")["Deleted"]]

    def said(self) -> EndpointSaid | None:
        """How the endpoint is; None if there is none."""
        said = self._asked("GET")["endpoint"]
        try:
            found = None if said is None else EndpointSaid.read(said)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise not_understood(self._directory) from None
        if found is not None:
            self.name = found.name
        return found

    def looks(self) -> Iterator[EndpointSaid | None]:
        """Yield how the endpoint is, twice a second."""
        while True:
            yield self.said()
            time.sleep(_LOOK)

    def status(self) -> tuple[EndpointStatus, ...]:
        """The endpoint as the fleet has it, with its instances; empty if it has not."""
        name = self.name.lower()  # by which no two endpoints are
        return tuple(each for each in endpoints_of(self._directory) if each.name.lower() == name)

    def log(self, instance: str, lines: int) -> bytes:
        """The last lines that an instance has printed; empty if nothing of them is kept."""
        query = {"lines": str(lines), "instance": instance}
        path = ("endpoints", self.name, "logs")
        try:
            return whole(self._directory, ask(self._directory, "GET", *path, query=query))
        except GatewayNotAsked:  # nothing was printed; why it failed is known without
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
