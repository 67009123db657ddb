"""The common interface of open streams: sessions and responses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from partway.gateway.streams.ends import ClientFault, Ending


@dataclass(slots=True)
class Counts:
    """Parts and payload bytes of one direction."""

    parts: int = 0
    bytes: int = 0


class OpenStream(Protocol):
    """A stream as its registry and its metrics see it."""

    @property
    def endpoint(self) -> str: ...

    @property
    def request_id(self) -> str: ...

    @property
    def status(self) -> int | None:
        """The status of the response that passes on a container's; None for other streams."""

    @property
    def from_client(self) -> Counts:
        """Parts that went to the container."""

    @property
    def from_container(self) -> Counts:
        """Parts that came from the container."""

    @property
    def parts_saved(self) -> int:
        """Some of those; see :class:`~partway.gateway.streams.session.Session`."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes held for it."""

    @property
    def started_at(self) -> float:
        """When it began, by its clock."""

    @property
    def first_part_at(self) -> float | None:
        """When the container's first part came; None until then."""

    @property
    def ended_at(self) -> float | None:
        """When it ended; None until then."""

    @property
    def ending(self) -> Ending | None:
        """How it ended; None until then."""

    def drain(self) -> None:
        """End it: the gateway stops, or its instance."""

    def client_failed(self, fault: ClientFault) -> None:
        """End it because of its client's fault."""
