"""Platforms that ask for a stream wrongly."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

from tests.frame_factory import KEY, PONG
from tests.frame_factory import frame as frame_of
from tests.gateway.workbench.conformance.platform.broken.registry import breaks, listed
from tests.gateway.workbench.conformance.platform.relay import Distortion
from tests.gateway.workbench.conformance.platform.trying import HURRIED
from tests.wire.peers import accept_key, header


def _more(head: bytes, line: str) -> bytes:
    return head[:-2] + line.encode() + b"\r\n\r\n"


@breaks("upgrade.asked")
class Posts(Distortion):
    """Asks for a stream with POST."""

    def request(self, head):
        return head.replace(b"GET ", b"POST ", 1)


@breaks("upgrade.asked")
class OldVersion(Distortion):
    """Asks for version 8 of the protocol."""

    def request(self, head):
        return re.sub(rb"(?i)(sec-websocket-version: )13", rb"\g<1>8", head)


@breaks("upgrade.host")
class TwoHosts(Distortion):
    """Names two hosts."""

    def request(self, head):
        return _more(head, "Host: elsewhere")


class _OtherKey(Distortion):
    def key(self, was: bytes) -> bytes:
        raise NotImplementedError

    def request(self, head):
        self.was = header(head, "sec-websocket-key")
        self.now = base64.b64encode(self.key(base64.b64decode(self.was))).decode()
        return head.replace(self.was.encode(), self.now.encode())

    def answer(self, head):
        return head.replace(accept_key(self.now).encode(), accept_key(self.was).encode())


@breaks("upgrade.key")
class OneKey(_OtherKey):
    """Has the same Sec-WebSocket-Key for each stream."""

    def key(self, was):
        return bytes(range(16))


@breaks("upgrade.key")
class ShortKey(_OtherKey):
    """Makes Sec-WebSocket-Key of eight bytes."""

    def key(self, was):
        return was[:8]


@breaks("upgrade.extensions")
class OffersCompression(Distortion):
    """Offers permessage-deflate."""

    def request(self, head):
        return _more(head, "Sec-WebSocket-Extensions: permessage-deflate")


@breaks("upgrade.subprotocol")
class OffersSubprotocol(Distortion):
    """Passes the client's subprotocol on."""

    def request(self, head):
        return _more(head, "Sec-WebSocket-Protocol: payloadpart.v1.msgpack")


@breaks("upgrade.path")
class OtherPath(Distortion):
    """Asks for /invocations by default."""

    def request(self, head):
        return head.replace(b"GET /invocations-bidirectional-stream ", b"GET /invocations ", 1)


@breaks("upgrade.given_path")
class PathBehindPath(Distortion):
    """Puts the client's path behind the default one."""

    def request(self, head):
        return head.replace(b"GET /v1", b"GET /invocations-bidirectional-stream/v1", 1)


@breaks("upgrade.query")
class NormalisesQuery(Distortion):
    """Writes the percent-encoding of a query anew."""

    def request(self, head):
        return head.replace(b"%e2", b"%E2", 1)


@breaks("upgrade.query")
class DropsQuery(Distortion):
    """Drops the query."""

    def request(self, head):
        return re.sub(rb"\?[^ ]* ", b" ", head, count=1)


@breaks("upgrade.request_id")
class OtherRequestId(Distortion):
    """Makes a request id up."""

    def request(self, head):
        return re.sub(rb"(?i)(x-amzn-sagemaker-request-id: )[^\r]*", rb"\g<1>other", head)


@breaks("upgrade.request_id")
class NoRequestId(Distortion):
    """Leaves the request id out."""

    def request(self, head):
        return re.sub(rb"(?i)x-amzn-sagemaker-request-id: [^\r]*\r\n", b"", head)


@breaks("upgrade.headers")
class PassesHeaders(Distortion):
    """Passes the client's Authorization on."""

    def request(self, head):
        return _more(head, "Authorization: Bearer secret")


@breaks("upgrade.waits")
class SpeaksEarly(Distortion):
    """Sends a frame before the 101."""

    patience = 0.02

    def early(self):
        return frame_of(PONG, b"early", mask=KEY)


@breaks("upgrade.refused")
class HidesStatus(Distortion):
    """Reports every refusal as a 500."""

    def answer(self, head):
        return re.sub(rb"^HTTP/1.1 [2-5]\d\d [^\r]*", b"HTTP/1.1 500 Internal Server Error", head)


@breaks("upgrade.wrong_101")
class BelievesAnyAccept(Distortion):
    """Does not look at Sec-WebSocket-Accept."""

    def request(self, head):
        self.key = header(head, "sec-websocket-key")
        return head

    def answer(self, head):
        accept = b"\\g<1>" + accept_key(self.key).encode()
        return re.sub(rb"(?i)(sec-websocket-accept: )[^\r]*", accept, head)


@breaks("upgrade.wrong_101")
class TakesCompression(Distortion):
    """Takes an extension that it has not offered."""

    def answer(self, head):
        return re.sub(rb"(?i)sec-websocket-extensions: [^\r]*\r\n", b"", head)


listed(
    "accepts-late",
    "Waits for a connection for more than 250 ms.",
    ("upgrade.accept_timeout",),
    None,
    replace(HURRIED, connect_timeout=1.5),
)
