"""Upgrade heads of other clients (clauses 1.1-2, 1.1-4 and 1.6-1; RFC 9110 §5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.raw_connection import PATIENCE
from partway.gateway.workbench.conformance.raw_stream import NotGranted, in_one_piece, upgrade
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken
from partway.protocol.limits import MAX_QUERY_STRING

checks: Final = Checks()

#: Seconds for the answer to a Close; another check asks whether it comes.
_LEAVE_TIMEOUT = 0.3

#: Forms of the headers that browsers and proxies write, besides the platform's.
_TOKENS: Final = (
    {"Connection": "keep-alive, Upgrade"},
    {"Connection": "upgrade"},
    {"Upgrade": "WebSocket"},
)
#: White space, a query's own delimiters, letters beyond ASCII in both cases, and bytes that are not
#: UTF-8.
_ENCODED: Final = (
    "partway=a%20b%2Bc",
    "partway=a%26b%3Dc%25d%23e%3Ff%2Fg",
    "partway=%C3%BC%e6%97%a5",
    "partway=%FF",
)


async def _is_granted(
    trial: Trial,
    what: str,
    target: str | None = None,
    headers: Mapping[str, str] | None = None,
    written: Callable[[bytes], Iterable[bytes]] = in_one_piece,
) -> None:
    """Ask for a stream, and put the probe's question on it.

    Raises:
        Broken: the stream is not granted, or does not answer; ``what`` names the request.
    """
    where = target if target is not None else str(trial.subject.target)
    async with trial.link(what) as link:
        try:
            found = await upgrade(link, where, headers or {}, PATIENCE, written)
        except Broken as broken:
            raise Broken(f"{what}: {broken.what}") from None
        if isinstance(found, NotGranted):
            raise Broken(
                f"{what}: the container answered the upgrade with {found.answer}, not with 101"
            )
        if trial.probe.echo:
            await trial.answered(found, what)
        await found.leave(_LEAVE_TIMEOUT)


def _lower(head: bytes) -> list[bytes]:
    return [_renamed(head, bytes.lower)]


def _upper(head: bytes) -> list[bytes]:
    return [_renamed(head, bytes.upper)]


def _renamed(head: bytes, spell: Callable[[bytes], bytes]) -> bytes:
    first, *fields = head.split(b"\r\n")
    parts = (field.partition(b":") for field in fields)
    return b"\r\n".join((first, *(spell(name) + colon + value for name, colon, value in parts)))


def _in_pieces(head: bytes) -> list[bytes]:
    """Cut inside the path, inside a header's name, and before the last line's end."""
    inside, name = len(b"GET /in"), head.index(b"\r\nSec-") + 5
    return [head[:inside], head[inside:name], head[name:-2], head[-2:]]


@checks.add(
    "upgrade.names",
    "1.1-4",
    title="the container reads an upgrade's header names in lower case and in capitals",
    remedy="compare names of headers without regard to case (RFC 9110 §5.1): proxies write them in "
    "lower case",
    requires=("upgrade.granted", "messages.answer"),
)
async def names(trial: Trial) -> None:
    await _is_granted(trial, "with all names of headers in lower case", written=_lower)
    await _is_granted(trial, "with all names of headers in capitals", written=_upper)


@checks.add(
    "upgrade.tokens",
    "1.1-4",
    title="the container reads Connection and Upgrade in any case, and Connection as a list",
    remedy="read Connection as a list that has the word upgrade, and compare it and Upgrade's "
    "websocket without regard to case (RFC 6455 §4.2.1)",
    requires=("upgrade.granted", "messages.answer"),
)
async def tokens(trial: Trial) -> None:
    for headers in _TOKENS:
        ((name, value),) = headers.items()
        await _is_granted(trial, f"with {name}: {value}", headers=headers)


@checks.add(
    "upgrade.pieces",
    "1.1-4",
    title="the container reads an upgrade whose head comes in pieces",
    remedy="read on until the empty line that ends the head: TCP may split it anywhere",
    requires=("upgrade.granted", "messages.answer"),
)
async def pieces(trial: Trial) -> None:
    await _is_granted(trial, "with a head in four pieces", written=_in_pieces)


@checks.add(
    "upgrade.long_query",
    "1.6-1",
    title=f"the container accepts a query of {MAX_QUERY_STRING:,} bytes, as it accepts a short one",
    remedy="raise your server's limit of a request's first line to 4 KiB or more",
    requires=("upgrade.query", "messages.answer"),
)
async def long_query(trial: Trial) -> None:
    target = trial.subject.target
    query = f"{target.query}&partway=".removeprefix("&")
    query += "1" * (MAX_QUERY_STRING - len(query))
    what = f"with a query of {MAX_QUERY_STRING:,} bytes"
    await _is_granted(trial, what, f"/{target.path}?{query}")


@checks.add(
    "upgrade.encoded_query",
    "1.6-1",
    title="the container accepts a percent-encoded query, as it accepts a plain one",
    remedy="split the query first, then decode names and values; do not fail at bytes that are "
    "not UTF-8",
    requires=("upgrade.query", "messages.answer"),
)
async def encoded_query(trial: Trial) -> None:
    target = str(trial.subject.target)
    for query in _ENCODED:
        mark = "&" if "?" in target else "?"
        await _is_granted(trial, f"with the query {query}", f"{target}{mark}{query}")
