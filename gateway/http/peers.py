"""Whose connection it is: what counts as one peer, and which peers stand for many clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

#: What one subscriber has of IPv6 at least (RFC 6177 §2): all of it can be used by one machine.
_IPV6_PREFIX: Final = 64

#: Where NAT64 has the clients that speak IPv4 alone (RFC 6052 §2.1).
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")

#: Addresses whose peers are remembered: each request asks for that of its own, several times.
_REMEMBERED: Final = 4096

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=_REMEMBERED)
def peer_of(address: str) -> str:
    """The peer that an address belongs to, by which connections are counted and limited.

    An IPv4 address is a peer by itself, also where IPv6 carries it (``::ffff:192.0.2.1``, and
    NAT64's ``64:ff9b::192.0.2.1``, RFC 6052 §2.1). Of IPv6
    all addresses of one /64 are one peer.

    Args:
        address: as a socket tells it, with a zone (``fe80::1%eth0``) or without.

    Returns:
        An IPv4 address, or an IPv6 network such as ``2001:db8::/64``; what is no address (a Unix
        socket has none) as it is.
    """
    found = _parsed(address)
    if found is None:
        return address
    if found.version == 4:
        return str(found)
    return str(ipaddress.IPv6Network((int(found), _IPV6_PREFIX), strict=False))


def network_of(text: str) -> Network:
    """The network that a text names; an address by itself is a network of one.

    Raises:
        ValueError: the text is neither an address nor a network, or has bits behind its prefix.
    """
    network = ipaddress.ip_network(text)
    mapped = network.network_address
    if isinstance(mapped, ipaddress.IPv6Address) and mapped.ipv4_mapped and network.prefixlen >= 96:
        return ipaddress.IPv4Network((mapped.ipv4_mapped, network.prefixlen - 96))
    return network


class TrustedProxies:
    """The addresses of proxies that carry many clients: no limit of a single peer's is theirs.

    Args:
        networks: texts as :func:`network_of` takes them.

    Raises:
        ValueError: a text is neither an address nor a network.
    """

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = tuple(map(network_of, networks))

    def __contains__(self, address: object) -> bool:
        """Whether an address, as a socket tells it, is a trusted proxy's."""
        if not self._networks or not isinstance(address, str):
            return False
        found = _parsed(address)
        return found is not None and any(found in network for network in self._networks)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address without its zone, IPv4's where IPv6 only carries it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        return found.ipv4_mapped or found
    return found
