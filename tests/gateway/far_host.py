"""A far host: a network namespace and a link to it, which can be cut; needs root and ``ip``."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from typing import Self

#: Namespaces of test runs side by side have links of their own.
_NUMBER = os.getpid() % 250


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class FarHost:
    """The far host; a context, which removes it at the end.

    Attributes:
        near_address: this side of the link.
        address: its side of the link.
    """

    def __init__(self) -> None:
        self.near_address = f"10.213.{_NUMBER}.1"
        self.address = f"10.213.{_NUMBER}.2"
        self._network = f"10.213.{_NUMBER}.0/30"
        self._name = f"partway{os.getpid()}"
        self._link, self._far_link = f"pwg{os.getpid()}", f"pwf{os.getpid()}"

    def command(self, *words: str) -> list[str]:
        """A command that runs on the far host."""
        return ["ip", "netns", "exec", self._name, *words]

    def cut_behind_the_gateway(self) -> None:
        """Packets leave the gateway's host and are lost; dials time out."""
        self._far("address", "delete", f"{self.address}/30", "dev", self._far_link)
        self._far("link", "set", self._far_link, "arp", "off")

    def cut_at_the_gateway(self) -> None:
        """No packet leaves, and dials fail at once."""
        _ip("link", "set", self._link, "down")

    def mend(self) -> None:
        """Undo a cut."""
        _ip("link", "set", self._link, "up")
        self._far("link", "set", self._far_link, "arp", "on")
        with suppress(AssertionError):  # it has the address
            self._far("address", "add", f"{self.address}/30", "dev", self._far_link)

    def __enter__(self) -> Self:
        _ip("netns", "add", self._name)
        try:
            # Without the link its network is unreachable. A default route could lead to a proxy
            # that accepts connections to any address.
            _ip("route", "add", "unreachable", self._network, "metric", "4096")
            ends = (self._link, "type", "veth", "peer", "name", self._far_link)
            _ip("link", "add", *ends, "netns", self._name)
            _ip("address", "add", f"{self.near_address}/30", "dev", self._link)
            _ip("link", "set", self._link, "up")
            self._far("address", "add", f"{self.address}/30", "dev", self._far_link)
            self._far("link", "set", self._far_link, "up")
            self._far("link", "set", "lo", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self._name)
        for words in (
            ("route", "delete", "unreachable", self._network, "metric", "4096"),
            ("link", "delete", self._link),  # it may have gone with its other end
        ):
            with suppress(AssertionError):
                _ip(*words)

    def _far(self, *words: str) -> None:
        _ip("-n", self._name, *words)
