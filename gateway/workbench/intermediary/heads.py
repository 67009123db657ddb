"""The heads of an upgrade's request and answer, read as they pass. Sans-IO."""

from __future__ import annotations

import re
from http import HTTPStatus

import h11

from partway.gateway.network.dialling import Address
from partway.gateway.streams.container_leg import REQUEST_ID
from partway.gateway.workbench.intermediary.observer import UpgradeAnswer, UpgradeRequest
from partway.protocol.limits import HANDSHAKE_HEAD_BYTES, REFUSAL_BODY_BYTES
from partway.protocol.websocket.handshake import is_upgrade


def upgrade_request(head: bytes) -> UpgradeRequest | None:
    """Parse a request's head; None if it does not ask for a WebSocket."""
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HANDSHAKE_HEAD_BYTES)
    parser.receive_data(head)
    try:
        event = parser.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Request) or event.method != b"GET":
        return None
    headers = _as_written(event)
    if not is_upgrade({name.title(): value for name, value in headers}):
        return None
    return UpgradeRequest(event.target.decode("latin-1"), headers)


def request_id(request: UpgradeRequest) -> str:
    """The gateway's name for the stream; ``-`` if the request names no stream."""
    wanted = REQUEST_ID.lower()
    return next((value for name, value in request.headers if name.lower() == wanted), "-")


def addressed(head: bytes, container: Address) -> bytes:
    """Put the container's own address into a request's ``Host``, as without an intermediary."""
    host = f"Host: {container}".encode("ascii", "replace")
    return re.sub(rb"(?im)^host:[^\r\n]*", lambda _: host, head, count=1)


def refusal(status: int, body: str) -> tuple[bytes, UpgradeAnswer]:
    try:
        reason = HTTPStatus(status).phrase
    except ValueError:  # the status is not registered
        reason = "Refused"
    payload = body.encode("utf-8", "replace")
    headers = (
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Content-Length", str(len(payload))),
        ("Connection", "close"),
    )
    lines = (f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in headers))
    head = "\r\n".join((*lines, "", "")).encode("ascii")
    return head + payload, UpgradeAnswer(status, reason, headers, payload)


class AnswerReader:
    """The container's answer to an upgrade, read as its bytes pass.

    Attributes:
        answer: the container's answer; None until it is known, a refusal's body included.
        frames: the bytes that came with a 101, behind it; None while there is no 101.
        unreadable: whether the bytes that came are not HTTP.
    """

    def __init__(self) -> None:
        self.answer: UpgradeAnswer | None = None
        self.frames: bytes | None = None
        self.unreadable = False
        self._refused: h11.Response | None = None
        self._body = b""
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HANDSHAKE_HEAD_BYTES)
        asked = [("Host", "container"), ("Upgrade", "websocket"), ("Connection", "Upgrade")]
        self._http.send(h11.Request(method="GET", target="/", headers=asked))
        self._http.send(h11.EndOfMessage())

    def receive(self, data: bytes) -> None:
        """Take bytes; b"" says that no more will come."""
        if self.unreadable or self.answer is not None:
            return
        try:
            self._http.receive_data(data)
            self._read()
        except h11.RemoteProtocolError:
            self.unreadable = True
            self._answered()

    def _read(self) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.InformationalResponse) and event.status_code == 101:
                self.frames = bytes(self._http.trailing_data[0])
                reason = event.reason.decode("latin-1")
                self.answer = UpgradeAnswer(101, reason, _as_written(event))
                return
            if isinstance(event, h11.Response):
                self._refused = event
            elif isinstance(event, h11.Data):
                self._body += event.data[: REFUSAL_BODY_BYTES - len(self._body)]
                if len(self._body) == REFUSAL_BODY_BYTES:
                    self._answered()
                    return
            elif not isinstance(event, h11.InformationalResponse):
                if event is not h11.NEED_DATA:  # the end of the body, or of the connection
                    self._answered()
                return

    def _answered(self) -> None:
        if self._refused is not None:
            self.answer = UpgradeAnswer(
                self._refused.status_code,
                self._refused.reason.decode("latin-1"),
                _as_written(self._refused),
                self._body,
            )


def _as_written(
    event: h11.Request | h11.Response | h11.InformationalResponse,
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in event.headers.raw_items()
    )
