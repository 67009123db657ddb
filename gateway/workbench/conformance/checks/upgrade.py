"""The opening handshake (clauses 1.1-4, 1.2-6 and 1.6-1; RFC 6455 §4)."""

from __future__ import annotations

from typing import Final

from partway.gateway.workbench.conformance.check import Checks
from partway.gateway.workbench.conformance.checks.http import UNKNOWN_HEADERS
from partway.gateway.workbench.conformance.raw_stream import NotGranted, Peer, upgrade
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Severity

checks: Final = Checks()

#: A path that no container knows.
UNKNOWN_PATH: Final = "/partway-knows-no-such-path"
#: Seconds for a Close after a 101 for a path that is not there.
_TAKEN_BACK = 1.0
#: Seconds for the answer to a Close; another check asks whether it comes.
_LEAVE_TIMEOUT = 0.3

_OPEN_PATH = "accept WebSockets on this path without authentication: "
_HTTP_METHOD = (
    "accept the WebSocket by GET: the server knows this path, but not as a path of WebSockets"
)
#: Remedies for refusals, by the status that says why.
_REFUSALS: Final = {
    400: "require no header but those of RFC 6455: the platform sends no Origin, subprotocol or "
    "extension",
    401: _OPEN_PATH + "the platform has authenticated the client already, and sends no credentials",
    403: _OPEN_PATH
    + "the platform sends no Origin and no credentials (websockets: leave `origins` out)",
    405: _HTTP_METHOD,
    426: _HTTP_METHOD,
}


@checks.add(
    "upgrade.granted",
    "1.1-4",
    "1.2-6",
    title="the container accepts a WebSocket on the path of streams",
    remedy="accept WebSockets on /invocations-bidirectional-stream; to check another path use "
    "--path",
    requires=("startup.ready",),
)
async def granted(trial: Trial) -> None:
    target = str(trial.subject.target)
    async with trial.link("an upgrade") as link:
        found = await upgrade(link, target, {})
        if isinstance(found, NotGranted):
            answer = found.answer
            what = (
                f"the container answered GET {target}, which asks for a WebSocket, with {answer}, "
                "not with 101"
            )
            raise Broken(what, _REFUSALS.get(answer.status))
        await found.leave(_LEAVE_TIMEOUT)


@checks.add(
    "upgrade.headers",
    "1.1-2",
    "1.6-1",
    title="the container accepts an upgrade with headers that it does not know",
    remedy="ignore headers that you do not know: the platform and its proxies add some",
    requires=("upgrade.granted", "http.headers"),
)
async def headers(trial: Trial) -> None:
    async with trial.stream("an upgrade with unknown headers", headers=UNKNOWN_HEADERS):
        pass


@checks.add(
    "upgrade.refused",
    "1.6-1",
    severity=Severity.SHOULD,
    title="the container refuses an unknown path with a status, before it accepts a WebSocket",
    remedy="answer 404 instead of accepting the WebSocket: for the client a Close after the 101 "
    "is a failed stream",
    requires=("upgrade.granted",),
)
async def refused(trial: Trial) -> None:
    async with trial.link("an upgrade of an unknown path") as link:
        found = await upgrade(link, UNKNOWN_PATH, {})
        if isinstance(found, NotGranted):
            return
        try:
            close = await found.closed(_TAKEN_BACK)
        except TimeoutError:
            return  # the container takes streams on any path
        said = f"Close {close.code}" if close is not None else "the end of the connection"
        raise Broken(f"the container accepted an unknown path with 101; then came {said}")


@checks.add(
    "upgrade.query",
    "1.6-1",
    severity=Severity.NOTE,
    title="the container accepts a query that it does not know",
    remedy="choose the handler by the path alone, without the query after the '?': clients may "
    "send any query; refuse one only on purpose",
    requires=("upgrade.granted",),
)
async def query(trial: Trial) -> None:
    target = str(trial.subject.target)
    target += "&partway=1" if "?" in target else "?partway=1"
    async with trial.stream("an upgrade with a query", target):
        pass


@checks.add(
    "upgrade.version",
    "1.1-4",
    severity=Severity.SHOULD,
    title="the container refuses a WebSocket version other than 13",
    remedy="answer 426 with Sec-WebSocket-Version: 13 (RFC 6455 §4.2.2)",
    requires=("upgrade.granted",),
)
async def version(trial: Trial) -> None:
    async with trial.link("an upgrade to version 12") as link:
        target = str(trial.subject.target)
        if isinstance(await upgrade(link, target, {"Sec-WebSocket-Version": "12"}), Peer):
            raise Broken("the container accepted an upgrade to version 12 with 101")
