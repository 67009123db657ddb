"""The same bytes to our server, to llhttp alone, and to nginx and HAProxy; ``make differential``.

``tests/wire/test_llhttp_agrees.py`` is the part that needs no proxy. Here each proxy stands before
a backend that records requests (``recording_proxies.py``). :data:`DIFFERENCES` has each difference
between a proxy and our server, with its reason. The check fails on a difference without a row, and
on a row without a difference.
"""

from __future__ import annotations

import asyncio
import enum
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.recording_proxies import Forwarded, Proxy, running
from tests.wire.llhttp_alone import End, Outcome, expected
from tests.wire.recording_server import RecordingServer, cut, ours
from tests.wire.request_bytes import CASES, CLASSES, NEXT, altered

pytestmark = pytest.mark.timeout(600)

#: Closes the connection, so that a proxy need not be waited for.
LAST = NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")

PROXIES = ("nginx", "haproxy")

#: Longer cases are cut at random places alone.
EACH_CUT_UP_TO = 160


class Kind(enum.Enum):
    """Where our server and a proxy part."""

    WE_REFUSE = "we refuse what the proxy forwards"
    PROXY_REFUSES = "the proxy refuses what we read"
    WE_STOP = "we read nothing behind a request, and the proxy reads on"
    PROXY_STOPS = "the proxy reads nothing behind a request, and we read on"
    BOTH_READ = "both read a request, and not the same one"
    END = "both read the same, and one of them refuses what follows"


class Difference(NamedTuple):
    """Cases in which a proxy does something else, for one reason."""

    kind: Kind
    reason: str
    nginx: tuple[str, ...] = ()
    haproxy: tuple[str, ...] = ()


_LF_IN_HEADS = (
    *("line: bare LF throughout", "line: bare LF behind the request line"),
    *("line: bare LF behind a header", "line: bare LF for the empty line"),
    *("coding: behind a bare LF", "pipeline: the same with a bare LF"),
)
_LF_IN_CHUNKS = (
    *("chunk: bare LF in an extension", "chunk: bare LF, and a size behind it"),
    *("chunk: bare LF behind", "chunk: bare LF behind the data", "chunk: bare LF behind the last"),
    *("chunk: bare LF for the empty line", "chunk: bare LF behind a trailer"),
)
_CONTROLS = (
    *("line: control in a value", "line: DEL in a value", "line: form feed in a value"),
    "pipeline: the same with a control",
)
_EXTENSIONS = (
    *("chunk: quote left open", "chunk: semicolon alone", "chunk: blank before an extension"),
    *("chunk: NUL in an extension", "chunk: blank behind", "chunk: tab behind"),
)
_UPGRADES = (
    *("connection: WebSocket", "connection: WebSocket with a length"),
    *("connection: WebSocket with chunks", "connection: WebSocket without Connection"),
)

DIFFERENCES = [
    Difference(
        Kind.WE_REFUSE,
        "A bare LF ends no line in a head. RFC 9112 §2.2 lets a recipient take it for an end.",
        nginx=(*_LF_IN_HEADS, "line: CR CR LF", "pipeline: the same with a bare CR"),
        haproxy=_LF_IN_HEADS,
    ),
    Difference(
        Kind.WE_REFUSE,
        "A bare LF ends no line among chunks (RFC 9112 §7.1).",
        nginx=_LF_IN_CHUNKS,
        haproxy=_LF_IN_CHUNKS,
    ),
    Difference(
        Kind.WE_REFUSE,
        "A value has no control characters (RFC 9110 §5.5). The proxy forwards them.",
        nginx=_CONTROLS,
        haproxy=(*_CONTROLS, "line: NUL in a value", "pipeline: the same with a NUL"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A line that begins with a blank is refused (RFC 9112 §2.2, §5.2). The proxy joins it with "
        "the line before, or drops it.",
        nginx=("chunk: folded trailer",),
        haproxy=(
            *("line: folded", "line: folded by a tab", "line: blank before a name"),
            *("line: a line of blanks", "coding: folded", "chunk: folded trailer"),
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A name is a token with a colon behind it (RFC 9110 §5.1). nginx drops other lines, and so "
        "a request line in the place of a trailer.",
        nginx=(
            *("line: UTF-8 in a name", "line: delimiter in a name", "line: no colon"),
            *("chunk: trailer without a colon", "chunk: no empty line"),
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "Single blanks separate a request line's parts (RFC 9112 §3). A recipient may be lenient.",
        nginx=("request line: blank at the end",),
        haproxy=("request line: tab before the target", "request line: tab before the version"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "HTTP/1.0 and HTTP/1.1 alone are read. A proxy forwards other versions as HTTP/1.1.",
        nginx=(
            *("request line: no version (HTTP/0.9)", "request line: HTTP/1.2"),
            *("request line: HTTP/1.10", "pipeline: the same of another version"),
        ),
        haproxy=(
            *("request line: HTTP/0.9", "request line: HTTP/1.2", "request line: HTTP/2.0"),
            *("request line: HTTP/3.0", "pipeline: the same of another version"),
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "llhttp has a list of methods, and refuses all others. A proxy forwards any token.",
        nginx=("request line: unknown method",),
        haproxy=(
            *("request line: unknown method", "request line: method in lower case"),
            *("request line: method in mixed case", "length: none, and bytes"),
            *("length: short of its body", "pipeline: the same with a shorter length"),
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A target is of visible ASCII (RFC 3986 §2).",
        nginx=("request line: UTF-8 in the target", "request line: no UTF-8 in the target"),
        haproxy=("request line: DEL in the target",),
    ),
    Difference(
        Kind.WE_REFUSE,
        "Two lengths are refused, the same ones too. RFC 9112 §6.3 lets a recipient join these.",
        haproxy=(
            *("length: comma, the same", "length: twice, the same", "length: twice, by case"),
            "pipeline: the same and a second length",
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A length beside a coding is refused. HAProxy drops the length and closes the connection "
        "(RFC 9112 §6.3 lets it).",
        haproxy=("coding: length before (CL.TE)", "coding: length behind (TE.CL)"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "Chunks of HTTP/1.0 are refused. HAProxy closes the connection behind them (RFC 9112 §6.1 "
        "asks for that).",
        haproxy=("coding: of HTTP/1.0", "coding: of HTTP/1.0, kept"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "The one spelling of a coding is `chunked`, in any case. HAProxy takes a tab behind it, "
        "and forwards a comma.",
        haproxy=("coding: tabs around", "coding: comma behind"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "HTTP/1.1 has one Host (RFC 9112 §3.2), and a URL names one. HAProxy takes neither, or the "
        "same one twice.",
        haproxy=(
            *("host: none", "host: two, the same", "pipeline: the same and no host"),
            *("URL: no host in the head", "URL: user alone", "URL: no host"),
            "URL: nothing behind",
        ),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A field that is no list is there once (RFC 9110 §5.3). A proxy forwards both.",
        nginx=("host: two types of body",),
        haproxy=("host: two types of body",),
    ),
    Difference(
        Kind.WE_REFUSE,
        "A chunk's extension has the form of RFC 9112 §7.1.1, without blanks. A proxy passes over "
        "all that is behind the size.",
        nginx=_EXTENSIONS,
        haproxy=_EXTENSIONS,
    ),
    Difference(
        Kind.WE_REFUSE,
        "A trailer that says how a body is framed is refused (RFC 9110 §6.5.1). nginx drops it, "
        "and HAProxy forwards it.",
        nginx=("chunk: length in a trailer", "chunk: coding in a trailer"),
        haproxy=("chunk: length in a trailer", "chunk: coding in a trailer"),
    ),
    Difference(
        Kind.WE_REFUSE,
        "llhttp heeds `close` in a trailer, and what follows is refused. A proxy reads on.",
        nginx=("chunk: close in a trailer",),
        haproxy=("chunk: close in a trailer",),
    ),
    Difference(
        Kind.WE_REFUSE,
        "The bounds of heads and of chunks' lines are other ones.",
        nginx=(
            *("limit: 65 headers", "limit: 200 headers", "limit: headers of 20,000 bytes"),
            "chunk: long extension",
        ),
        haproxy=(
            *("limit: 65 headers", "limit: a header of 9,000 bytes"),
            "limit: a target of 9,000 bytes",
        ),
    ),
    Difference(
        Kind.END,
        "HAProxy goes over to HTTP/2 at its preface. So does the gateway's listener, before this "
        "server has the bytes.",
        haproxy=("request line: the preface of HTTP/2",),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "We take tabs around a length (RFC 9110 §5.5), and nginx takes blanks alone.",
        nginx=("length: tabs around",),
    ),
    Difference(
        Kind.END,
        "A length or a chunk of up to 64 bits is read here, and bounded by each operation. The "
        "proxy has 63 bits or less.",
        nginx=(
            *("length: over 63 bits", "length: the last of 64 bits"),
            *("chunk: the last of 64 bits", "chunk: the last of 63 bits"),
        ),
        haproxy=(
            *("length: over 63 bits", "chunk: the last of 64 bits"),
            "chunk: the last of 63 bits",
        ),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "nginx decodes a path to find a location. Here each operation judges its own paths.",
        nginx=(
            *("request line: escapes", "request line: broken escape"),
            *("request line: asterisk of OPTIONS", "request line: asterisk of GET"),
        ),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "A fragment is no part of a target (RFC 9112 §3.2). No path of ours has one: 404.",
        haproxy=("request line: fragment",),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "nginx checks the form of a host. Here a host is text that is compared with names.",
        nginx=("host: empty", "host: list", "host: path", "host: blank", "URL: user"),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "HAProxy refuses a URL whose host is not that of the head. We use the head's alone.",
        haproxy=("URL: another host", "URL: query and no path"),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "CONNECT is nobody's here, and is answered as any path that is not there.",
        nginx=(
            *("connection: CONNECT", "connection: CONNECT with a length"),
            "connection: CONNECT of a path",
        ),
        haproxy=("connection: CONNECT of a path",),
    ),
    Difference(
        Kind.PROXY_REFUSES,
        "llhttp passes over a CR before a request line.",
        haproxy=("line: bare CR before",),
    ),
    Difference(
        Kind.WE_STOP,
        "Nothing is read behind a request for a WebSocket or a tunnel: it may be no HTTP. A proxy "
        "reads on, since the backend has refused.",
        nginx=_UPGRADES,
        haproxy=(*_UPGRADES, "connection: CONNECT"),
    ),
    Difference(
        Kind.WE_STOP,
        "llhttp takes Proxy-Connection for Connection.",
        nginx=("connection: of a proxy",),
        haproxy=("connection: of a proxy",),
    ),
    Difference(
        Kind.PROXY_STOPS,
        "nginx takes any value of Connection that begins with `close` for it.",
        nginx=("connection: close in a longer name",),
    ),
    Difference(
        Kind.BOTH_READ,
        "HAProxy repeats a URL (RFC 9112 §3.2.2 asks that of proxies), and we take its path.",
        haproxy=(
            *("URL: the same host", "URL: HTTPS", "URL: no path", "URL: port", "URL: user"),
            "URL: address in brackets",
        ),
    ),
    Difference(
        Kind.BOTH_READ,
        "nginx takes a URL of any scheme for its path. Here that is a target that nobody has: 404.",
        nginx=("URL: another scheme",),
    ),
    Difference(
        Kind.BOTH_READ,
        "CONNECT has no body (RFC 9110 §9.3.6) for HAProxy. We read what its length says, and "
        "nothing behind it.",
        haproxy=("connection: CONNECT with a length",),
    ),
]


def kind_of(we: Outcome, proxy: Forwarded) -> Kind | None:
    """Where the two part; None where they do not."""
    count = min(len(we.requests), len(proxy.requests))
    we_refuse = we.end is End.REFUSED
    if we.requests[:count] != proxy.requests[:count]:
        return Kind.BOTH_READ
    if len(proxy.requests) > count:
        return Kind.WE_REFUSE if we_refuse else Kind.WE_STOP
    if len(we.requests) > count:
        return Kind.PROXY_REFUSES if proxy.refused else Kind.PROXY_STOPS
    return None if we_refuse == proxy.refused else Kind.END


@pytest.fixture
async def server(anyio_backend: object) -> AsyncIterator[RecordingServer]:
    async with RecordingServer() as server:
        yield server


@pytest.fixture(params=PROXIES)
async def proxy(
    request: pytest.FixtureRequest, anyio_backend: object, tmp_path: Path
) -> AsyncIterator[tuple[str, Proxy]]:
    """Each proxy in turn, and its name."""
    async with running(request.param, tmp_path) as proxy:
        yield request.param, proxy


async def both(
    server: RecordingServer, proxy: Proxy, sent: list[bytes]
) -> list[tuple[Outcome, Forwarded]]:
    """The outcome of each connection at our server and at the proxy."""
    theirs = asyncio.gather(*(proxy.forwards(data) for data in sent))
    return list(zip([await ours(server, [data]) for data in sent], await theirs, strict=True))


async def test_each_difference_from_a_proxy_has_its_reason(
    server: RecordingServer, proxy: tuple[str, Proxy]
) -> None:
    name, peer = proxy
    listed = {case: row.kind for row in DIFFERENCES for case in getattr(row, name)}
    outcomes = await both(server, peer, [case + LAST for case in CASES.values()])
    kinds = {case: kind_of(*each) for case, each in zip(CASES, outcomes, strict=True)}
    found = {case: kind for case, kind in kinds.items() if kind is not None}
    assert found == listed
    assert len(listed) == sum(len(getattr(row, name)) for row in DIFFERENCES), "listed twice"


@pytest.mark.parametrize("seed", range(2))
async def test_a_proxy_and_we_read_no_altered_request_in_two_ways(
    server: RecordingServer, proxy: tuple[str, Proxy], seed: int
) -> None:
    """One of the two may refuse; a request that both read is the same."""
    cases = [case + LAST for case in altered(1000, seed)]
    allowed = {None, Kind.WE_REFUSE, Kind.PROXY_REFUSES, Kind.END}
    for case, (we, they) in zip(cases, await both(server, proxy[1], cases), strict=True):
        kind = kind_of(we, they)
        ends_http = b"upgrade: websocket" in case.lower() and kind is Kind.WE_STOP
        assert kind in allowed or ends_http, f"{case!r:.3000}: {we!r:.2000} {they!r:.2000}"


@pytest.mark.parametrize("kind", CLASSES)
async def test_each_cut(server: RecordingServer, kind: str) -> None:
    """A request that comes in two reads is the same wherever the first one ends."""
    draw = random.Random(kind)
    for name, case in CLASSES[kind].items():
        data = case + NEXT
        outcome, _ = expected(data)
        places = range(1, len(data))
        if len(data) > EACH_CUT_UP_TO:
            places = draw.sample(places, EACH_CUT_UP_TO)
        for at in places:
            assert await ours(server, cut(data, [at])) == outcome, f"{name}, cut at {at}"


@pytest.mark.parametrize("seed", range(100, 104))
async def test_altered_requests_are_read_as_llhttp_reads_them(
    server: RecordingServer, seed: int
) -> None:
    draw = random.Random(seed)
    for case in altered(1000, seed):
        data = case + NEXT
        outcome, _ = expected(data)
        pieces = cut(data, draw.sample(range(1, len(data)), draw.choice((0, 1, 2, 5))))
        assert await ours(server, pieces) == outcome, f"{data!r:.3000}"
