"""The platform's requests that each kind of server answers alike: ``/ping`` and upgrades."""

from __future__ import annotations

from collections.abc import Mapping

from multidict import CIMultiDict, CIMultiDictProxy

from partway.container.activity import STOPPING, Activity, check_not_a_page
from partway.container.health import Health
from partway.container.serving.exchange import RuntimeExchange
from partway.protocol.websocket.handshake import UpgradeError, check_upgrade, is_upgrade

PING = "/ping"


async def answer_ping(exchange: RuntimeExchange, activity: Activity, health: Health) -> None:
    """Answer ``/ping`` (clause 1.1-2), by GET and by POST: the documentation has both.

    A server that refuses streams is not healthy yet, even if its model or upstream is.
    """
    if exchange.method not in ("GET", "POST"):
        exchange.refuse(405, "the method of /ping must be GET or POST", {"Allow": "GET, POST"})
        return
    trouble = STOPPING if activity.draining else await health.trouble() or activity.absence()
    if trouble is None:
        exchange.respond(200)
    else:
        exchange.refuse(503, trouble)


def check_stream(exchange: RuntimeExchange, activity: Activity) -> str:
    """Check a request for a stream (clause 1.1-4), and return the key of its handshake.

    Raises:
        UpgradeError: the request is no valid upgrade, or no stream may begin now.
    """
    headers = _joined(exchange.headers)
    if not is_upgrade(headers):
        raise UpgradeError(
            426, "requests of this path must ask for a WebSocket", {"Upgrade": "websocket"}
        )
    if exchange.version != "1.1":
        raise UpgradeError(400, "a WebSocket must be opened over HTTP/1.1 (RFC 6455 §4.2.1)")
    check_not_a_page(headers.items())
    if exchange.length != 0:
        # The parser would still expect the body when we take its bytes for frames.
        raise UpgradeError(400, "a request for an upgrade must not have a body")
    key = check_upgrade(exchange.method, headers)
    activity.check_stream()
    return key


def request_id(headers: Mapping[str, str]) -> str:
    """Return the gateway's id of a request (clause 1.6-1), for the log."""
    return headers.get("X-Amzn-SageMaker-Request-Id", "-")[:64]


def _joined(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Join headers of one name into one line (RFC 9110 §5.3), so that a repeated one is refused."""
    return CIMultiDict({name: ", ".join(headers.getall(name)) for name in headers})
