"""The parts of a request's head that the runtime acts on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

from multidict import CIMultiDict, CIMultiDictProxy, MultiDict, MultiDictProxy

from partway.container.activity import is_from_a_page
from partway.container.serving.exchange import RuntimeExchange
from partway.protocol.http.content_codings import CONTENT_ENCODING, coding_of


class RequestHead(NamedTuple):
    """The headers that decide how a request is handled.

    Attributes:
        by_page: whether a web page made a browser send it.
        upgrade: whether it asks for any other protocol.
        coding: the body's content coding; empty for none.
    """

    by_page: bool
    upgrade: bool
    content_type: str
    coding: str


def head_of(headers: Mapping[str, str]) -> RequestHead:
    return RequestHead(
        by_page=is_from_a_page(headers.items()),
        upgrade="Upgrade" in headers,
        content_type=headers.get("Content-Type", "application/octet-stream"),
        coding=coding_of(headers),
    )


def query_of(exchange: RuntimeExchange) -> MultiDictProxy[str]:
    return MultiDictProxy(MultiDict(parse_qsl(exchange.query, keep_blank_values=True)))


def uncoded(headers: CIMultiDictProxy[str]) -> CIMultiDictProxy[str]:
    """Return the headers of a decoded body, without the coding and the coded length."""
    left = CIMultiDict(headers)
    for name in (CONTENT_ENCODING, "Content-Length"):
        left.popall(name, None)
    return CIMultiDictProxy(left)
