"""Checking that a request comes from this machine, and from no web page or proxy."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final
from urllib.parse import urlsplit

from partway.gateway.network.dialling import is_loopback
from partway.protocol.errors import AccessDenied

#: Headers that proxies add (RFC 7239, RFC 9110 §7.6.3); the client behind a proxy may be anywhere.
_OF_PROXIES: Final = frozenset(
    {"forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip"}
)
#: The prefix of further such headers: ``-For``, ``-Host``, ``-Proto``, ``-Port`` and more.
_FORWARDED: Final = "x-forwarded-"

_WHAT_TO_DO: Final = (
    "without authentication only requests from the gateway's own machine, to 127.0.0.1 or "
    "localhost, may change it; to allow others, the gateway's operator must add --auth sigv4 and "
    "--principals"
)


def check_nearness(
    peer: str,
    version: str,
    raw_headers: Iterable[tuple[str, str]],
    proxies: Container[object],
) -> None:
    """Refuse a request from elsewhere, on a gateway without authentication.

    A web page whose name resolves to this machine (DNS rebinding) also comes from loopback, but its
    requests name another host. A page of the gateway's own origin may be a container's, which
    chooses the media type of its answers. So no page is let in.

    Args:
        peer: the address that the request's connection comes from.
        proxies: addresses of proxies, whose clients are not visible here.

    Raises:
        AccessDenied: the request comes from elsewhere, or may do so.
    """
    fields = [(name.lower(), value) for name, value in raw_headers]
    hosts = [value for name, value in fields if name in ("host", ":authority")]
    if not is_own_machine(peer):
        raise AccessDenied(f"this request comes from another machine; {_WHAT_TO_DO}")
    if peer in proxies or any(_is_of_proxy(name) for name, _ in fields):
        raise AccessDenied(f"this request comes through a proxy; {_WHAT_TO_DO}")
    if version not in ("1.1", "2"):  # unconfigured proxies still ask by HTTP/1.0
        raise AccessDenied(
            f"this request's HTTP is older than 1.1, as from some proxies; {_WHAT_TO_DO}"
        )
    if any(name == "origin" for name, _ in fields):
        raise AccessDenied(f"this request comes from a web page; {_WHAT_TO_DO}")
    if not hosts or not all(map(_names_loopback, hosts)):
        raise AccessDenied(
            f"this request's Host must be a loopback address of this machine; {_WHAT_TO_DO}"
        )


def is_own_machine(address: str) -> bool:
    # A socket for both IP versions shows an IPv4 address in this form.
    return is_loopback(address.removeprefix("::ffff:"))


def _is_of_proxy(name: str) -> bool:
    return name in _OF_PROXIES or name.startswith(_FORWARDED)


def _names_loopback(authority: str) -> bool:
    try:
        return is_loopback(urlsplit(f"//{authority}").hostname or "")
    except ValueError:
        return False
