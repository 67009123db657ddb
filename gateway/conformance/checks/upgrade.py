"""The opening handshake (clauses 1.1-4, 1.2-6 and 1.6-1; RFC 6455 §4)."""

from __future__ import annotations

from typing import Final

from gateway.conformance.check import Broken, Checks, Severity
from gateway.conformance.checks.http import UNKNOWN_HEADERS
from gateway.conformance.peer import Peer, Refused, upgrade
from gateway.conformance.trial import Trial

checks: Final = Checks()

_UNKNOWN_PATH = "/partway-knows-no-such-path"
#: After a 101 for a path that is not there: for the Close that takes it back.
_TAKEN_BACK = 1.0


@checks.add(
    "upgrade.granted",
    "1.1-4",
    "1.2-6",
    title="a WebSocket is granted where streams are taken",
    remedy="grant it on /invocations-bidirectional-stream (or name your --path), without Origin, "
    "subprotocol or extension: none is sent",
    requires=("startup.ready",),
)
async def granted(trial: Trial) -> None:
    async with trial.stream("an upgrade"):
        pass


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
    remedy="answer 404 before the 101: a Close after it is a failed stream to the client",
    requires=("upgrade.granted",),
)
async def refused(trial: Trial) -> None:
    async with trial.link("an upgrade of an unknown path") as link:
        found = await upgrade(link, _UNKNOWN_PATH, {})
        if isinstance(found, Refused):
            return
        try:
            close = await found.closed(_TAKEN_BACK)
        except TimeoutError:
            return  # it takes streams anywhere, and means it
        said = f"Close {close.code}" if close is not None else "the end of the connection"
        raise Broken(f"an unknown path is accepted with 101, and then comes {said}")


@checks.add(
    "upgrade.query",
    "1.6-1",
    severity=Severity.NOTE,
    title="a query that the container does not know is let pass",
    remedy="refuse queries on purpose, or not at all: clients of the platform may send any",
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
