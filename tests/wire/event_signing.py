"""A client's signatures (section 2.4), made with ``hashlib`` and ``hmac`` alone.

A request's signature is the first link of a chain: each event's signature covers the one before it.

::

    signing = EventSigning(SECRET)
    stream = client.request(signing.request(bidirectional_request()))
    stream.send(part_event(b"hi", signed_by=signing.event), signing.end())
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Literal
from urllib.parse import quote, unquote

from tests.event_factory import TIMESTAMP, header, signed

#: AWS's own examples, in its documentation.
KEY_ID = "AKIAIOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
STREAMING = "STREAMING-AWS4-HMAC-SHA256-EVENTS"
EMPTY_HASH = hashlib.sha256(b"").hexdigest()

Headers = list[tuple[str, str]]
Style = Literal["python", "js", "rust"]


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def stamp(at_ms: int) -> str:
    """``YYYYMMDDTHHMMSSZ``."""
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")


def encode(text: str) -> str:
    """Percent-encoded once, whatever it was before."""
    return quote(unquote(text), safe="-_.~")


def canonical_query(query: str) -> str:
    """Pairs in the order of their encoded names and values; a bare ``?`` has none."""
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    encoded = sorted((encode(name), encode(value)) for name, _, value in pairs)
    return "&".join(f"{name}={value}" for name, value in encoded)


class EventSigning:
    """One key's signatures for one stream.

    Args:
        secret: the secret key.
        key_id: the access key's id.
        region: as in the scope.
        token: of temporary keys.
        style: ``python`` signs ``host``, which is ``:authority`` and is not sent besides; ``js``
            signs ``:authority``; ``rust`` signs ``host`` and SHA-256 of the empty string, and sends
            no x-amz-content-sha256 (clauses 2.1-1, 2.4-3).
        clock: milliseconds since 1970, of the request and of each event.

    Attributes:
        prior: what the next event's signature covers, in hexadecimal. The request's, to begin with.
    """

    def __init__(
        self,
        secret: str = SECRET,
        key_id: str = KEY_ID,
        *,
        region: str = "us-east-1",
        service: str = "sagemaker",
        token: str | None = None,
        style: Style = "python",
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self.secret = secret
        self.key_id = key_id
        self.region = region
        self.service = service
        self.token = token
        self.style = style
        self.clock = clock
        self.prior = ""

    # --- The request -----------------------------------------------------------------------------

    def request(self, headers: Headers, unsigned: Iterable[str] = ()) -> Headers:
        """The same request, signed: the pseudo-headers first, what signing adds last.

        Args:
            headers: pseudo-headers (HTTP/1.1 too has them here) and headers, names in lower case.
            unsigned: headers that are sent and not signed.
        """
        at = stamp(self.clock())
        pseudo = {name: value for name, value in headers if name.startswith(":")}
        if self.style != "rust":
            headers = [*headers, ("x-amz-content-sha256", STREAMING)]
        headers = [*headers, ("x-amz-date", at)]
        if self.token is not None:
            headers = [*headers, ("x-amz-security-token", self.token)]
        covered = {
            name: " ".join(value.split())
            for name, value in headers
            if not name.startswith(":") and name not in unsigned
        }
        covered.setdefault(":authority" if self.style == "js" else "host", pseudo[":authority"])
        path, _, query = pseudo[":path"].partition("?")
        canonical = [
            pseudo[":method"],
            quote(path, safe="/-_.~"),  # raw, so what is encoded already is encoded twice
            canonical_query(query),
            *(f"{name}:{covered[name]}" for name in sorted(covered)),
            "",
            ";".join(sorted(covered)),
            EMPTY_HASH if self.style == "rust" else STREAMING,
        ]
        digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
        to_sign = f"AWS4-HMAC-SHA256\n{at}\n{self.scope(at)}\n{digest}"
        self.prior = mac(self.key(at), to_sign).hex()
        credential = f"Credential={self.key_id}/{self.scope(at)}"
        names = f"SignedHeaders={';'.join(sorted(covered))}"
        value = f"AWS4-HMAC-SHA256 {credential}, {names}, Signature={self.prior}"
        return [*headers, ("authorization", value)]

    # --- Events ----------------------------------------------------------------------------------

    def event(self, payload: bytes, at_ms: int | None = None) -> bytes:
        """A message signed: the message around it, as bytes (clause 2.4-4).

        Args:
            payload: one whole message, or nothing, which ends the input.
            at_ms: its ``:date``, by default the clock's.
        """
        date = self.clock() if at_ms is None else at_ms
        at = stamp(date)
        parts = [
            "AWS4-HMAC-SHA256-PAYLOAD",
            at,
            self.scope(at),
            self.prior,
            hashlib.sha256(header(":date", TIMESTAMP, date)).hexdigest(),
            hashlib.sha256(payload).hexdigest(),
        ]
        signature = mac(self.key(at), "\n".join(parts))
        self.prior = signature.hex()
        return signed(payload, date, signature)

    def end(self, at_ms: int | None = None) -> bytes:
        """The signed empty message that ends the input (clause 2.3-2)."""
        return self.event(b"", at_ms)

    # --- Keys ------------------------------------------------------------------------------------

    def scope(self, at: str) -> str:
        """Day, region, service."""
        return f"{at[:8]}/{self.region}/{self.service}/aws4_request"

    def key(self, at: str) -> bytes:
        key = b"AWS4" + self.secret.encode()
        for step in (at[:8], self.region, self.service, "aws4_request"):
            key = mac(key, step)
        return key
