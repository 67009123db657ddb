"""What the containers of an instance print, where it has several: each for itself."""

from __future__ import annotations

from collections.abc import Mapping

from partway.gateway.fleet.instance_context import CapturedOutput
from partway.gateway.fleet.limits import LAST_LINES


class ContainerOutputs:
    """The outputs of all containers of one instance, to be treated as one.

    Args:
        each: by the containers' host names.
    """

    def __init__(self, each: Mapping[str, CapturedOutput]) -> None:
        self._each = each

    def last_lines(self) -> tuple[str, ...]:
        """What each has printed last, behind its host name; of each a part of what one shows."""
        most = max(1, LAST_LINES // len(self._each))
        return tuple(
            f"{hostname}: {line}"
            for hostname, output in self._each.items()
            for line in output.last_lines()[-most:]
        )

    def close(self) -> None:
        """Take no more of any."""
        for each in self._each.values():
            each.close()
