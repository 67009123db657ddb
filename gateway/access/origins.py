"""Origins: the web pages from which a request may come (clause 3-4)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from multidict import istr

from partway.protocol.errors import AccessDenied

_ORIGIN: Final = istr("Origin")


def check_origin(headers: Mapping[str, str], allowed: frozenset[str], *, encrypted: bool) -> None:
    """Refuse a browser's page from elsewhere: cross-site WebSocket hijacking (clause 3-4).

    A request without ``Origin`` does not come from a browser. A page with the same scheme, host and
    port passes only if the host is an address or ``localhost``. Any DNS may point another name
    here, so a name does not prove that the page is ours (DNS rebinding).

    Args:
        allowed: further origins that pass.
        encrypted: whether the request came with TLS: then a page of ours is https.

    Raises:
        AccessDenied: the origin is neither ours nor allowed.
    """
    origin = headers.get(_ORIGIN)
    if origin is None or origin in allowed or "*" in allowed:
        return
    own = "https" if encrypted else "http"
    if _is_own(origin, own, asked_host(headers)):
        return
    raise AccessDenied(
        "pages of this origin may not open streams here; "
        "the gateway's operator can allow it with --allow-origin"
    )


def asked_host(headers: Mapping[str, str]) -> str:
    """Return the host and port of a request, in its client's words; empty if it has none.

    Over HTTP/2 it is in ``:authority`` (RFC 9113 §8.3.1).
    """
    return headers.get("Host") or headers.get(":authority", "")


def _is_own(origin: str, scheme: str, host: str) -> bool:
    try:
        page = urlsplit(origin)
        if page.scheme != scheme or page.netloc.lower() != host.lower():
            return False
        name = page.hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
