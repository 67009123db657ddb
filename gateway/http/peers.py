"""Peers: which addresses count as one client, and which belong to proxies with many clients."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

#: The smallest IPv6 network of a subscriber (RFC 6177 §2); one machine can use all of it.
_IPV6_PREFIX: Final = 64

#: NAT64's addresses of clients that speak only IPv4 (RFC 6052 §2.1).
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")

#: Cached addresses: each request looks up its own several times.
_REMEMBERED: Final = 4096

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@lru_cache(maxsize=_REMEMBERED)
def peer_of(address: str) -> str:
    """Return the peer of an address; connections are counted and limited by peer.

    An IPv4 address is a peer by itself, also inside IPv6 (``::ffff:192.0.2.1``, and NAT64's
    ``64:ff9b::192.0.2.1``, RFC 6052 §2.1). All IPv6 addresses of one /64 are one peer.

    Args:
        address: as a socket shows it, with a zone (``fe80::1%eth0``) or without.

    Returns:
        An IPv4 address, or an IPv6 network such as ``2001:db8::/64``. Any other text stays as it
        is, since a Unix socket has no address.
    """
    found = _parsed(address)
    if found is None:
        return address
    if found.version == 4:
        return str(found)
    return str(ipaddress.IPv6Network((int(found), _IPV6_PREFIX), strict=False))


def network_of(text: str) -> Network:
    """Return the network that a text names; a single address is a network of one.

    Raises:
        ValueError: the text is neither an address nor a network, or has bits after its prefix.
    """
    network = ipaddress.ip_network(text)
    mapped = network.network_address
    if isinstance(mapped, ipaddress.IPv6Address) and mapped.ipv4_mapped and network.prefixlen >= 96:
        return ipaddress.IPv4Network((mapped.ipv4_mapped, network.prefixlen - 96))
    return network


class TrustedProxies:
    """The addresses of proxies that carry many clients, and so have no limits of one peer.

    Args:
        networks: texts as :func:`network_of` takes them.

    Raises:
        ValueError: a text is neither an address nor a network.
    """

    __slots__ = ("_networks",)

    def __init__(self, networks: Iterable[str] = ()) -> None:
        self._networks = tuple(map(network_of, networks))

    def __contains__(self, address: object) -> bool:
        """Say whether an address, as a socket shows it, is a trusted proxy's."""
        if not self._networks or not isinstance(address, str):
            return False
        found = _parsed(address)
        return found is not None and any(found in network for network in self._networks)


def _parsed(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address without its zone, and as IPv4 if IPv6 only carries it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            return ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)
        return found.ipv4_mapped or found
    return found
