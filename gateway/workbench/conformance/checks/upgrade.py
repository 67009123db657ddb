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

_OPEN_PATH = "take WebSockets on this path without asking who comes: "
_HTTP_METHOD = "take the WebSocket by GET: the path is known, and not as one of WebSockets"
#: Remedies for refusals, by the status that says why.
_REFUSALS: Final = {
    400: "ask for no header but RFC 6455's: Origin, subprotocols and extensions are not sent",
    401: _OPEN_PATH + "the platform has asked before, and sends no credentials",
    403: _OPEN_PATH + "no Origin and no credentials are sent (websockets: leave `origins` out)",
    405: _HTTP_METHOD,
    426: _HTTP_METHOD,
}


@checks.add(
    "upgrade.granted",
    "1.1-4",
    "1.2-6",
    title="a WebSocket is granted where streams are taken",
    remedy="take WebSockets on /invocations-bidirectional-stream; a further path of yours is "
    "checked with --path",
    requires=("startup.ready",),
)
async def granted(trial: Trial) -> None:
    target = str(trial.subject.target)
    async with trial.link("an upgrade") as link:
        found = await upgrade(link, target, {})
        if isinstance(found, NotGranted):
            answer = found.answer
            what = f"the upgrade of GET {target} to a WebSocket is answered {answer}, not 101"
            raise Broken(what, _REFUSALS.get(answer.status))
        await found.leave(_LEAVE_TIMEOUT)


@checks.add(
    "upgrade.headers",
    "1.1-2",
    "1.6-1",
    title="an upgrade with headers that the container does not know is granted",
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
    title="a path that is not there is refused with a status, before a WebSocket is accepted",
    remedy="answer 404 in place of accepting the WebSocket: a Close after the 101 is a failed "
    "stream to the client",
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
        raise Broken(f"an unknown path is accepted with 101, and then comes {said}")


@checks.add(
    "upgrade.query",
    "1.6-1",
    severity=Severity.NOTE,
    title="a query that the container does not know is let pass",
    remedy="choose the handler by the path alone, without what follows its '?': clients of the "
    "platform may send any query; refuse one only on purpose",
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
    title="another version of WebSocket than 13 is refused",
    remedy="answer 426 with Sec-WebSocket-Version: 13 (RFC 6455 §4.2.2)",
    requires=("upgrade.granted",),
)
async def version(trial: Trial) -> None:
    async with trial.link("an upgrade to version 12") as link:
        target = str(trial.subject.target)
        if isinstance(await upgrade(link, target, {"Sec-WebSocket-Version": "12"}), Peer):
            raise Broken("an upgrade to version 12 is granted with 101")
