"""The chain of signatures through a stream's events (clauses 2.4-4, 2.4-5).

Each event signs the signature before it, the first one the request's. A dropped, repeated, moved or
changed event breaks the chain.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final

from partway.protocol.limits import MAX_CLOCK_SKEW
from partway.protocol.signatures.canonical_form import (
    Credentials,
    Scope,
    derived_key,
    timestamp_text,
)

#: The encoded ``:date`` header up to its value: name's length, name, type 8 (timestamp).
_DATE_HEADER: Final = b"\x05:date\x08"


def _no_more() -> Sequence[str]:
    return ()


def _always(_: str) -> bool:
    return True


class EventSignatureInvalid(Exception):
    """An event's signature is invalid; the message names the mismatch, never the right value."""


class EventChain:
    """Verifies the events of one stream, in order.

    Rules:
        1. A date is at most 5 minutes ahead of the clock and at most 5 minutes before the request;
           dates may go backwards (2.4-5).
        2. The key is derived from the event's own date (2.4-4).
        3. An event does not name its key. If the first key does not match, the principal's other
           keys are tried. The matching key is first from then on (2.4-5).
        4. After one invalid event, all later events are invalid.
        5. A revoked key matches no event. Revocation is checked once a second.

    Args:
        keys: secrets of one principal; the first one signed the request.
        request_time: the request's date, in epoch seconds.
        seed_signature_hex: the request's signature.
        more_keys: called when no key matches, for secrets added since the stream began.
        is_good: whether a secret still belongs to the principal.
    """

    __slots__ = (
        "_asked_at", "_broken", "_day", "_derived", "_earliest_ms", "_head", "_is_good", "_key",
        "_more_keys", "_prior", "_region", "_scope", "_second", "_secrets", "_taken_away",
    )  # fmt: skip

    def __init__(
        self,
        keys: Sequence[str],
        region: str,
        request_time: float,
        seed_signature_hex: str,
        more_keys: Callable[[], Sequence[str]] = _no_more,
        is_good: Callable[[str], bool] = _always,
    ) -> None:
        if not keys:
            raise ValueError("a chain of signatures must have at least one key")
        self._secrets = list(keys)
        self._more_keys = more_keys
        self._is_good = is_good
        self._asked_at = -1
        self._taken_away = False
        self._region = region
        self._earliest_ms = int((request_time - MAX_CLOCK_SKEW) * 1000)
        self._prior = seed_signature_hex
        self._broken = False
        # For the second and day of the last event; most events have the same.
        self._second = -1
        self._day = -1
        self._scope = Scope("", region)
        self._head = ""
        self._key = b""
        self._derived: dict[str, bytes] = {}

    def checked_by(self, clock: Callable[[], float]) -> Callable[[int, bytes, bytes], str | None]:
        """Return a function that takes an event's date, signature and payload.

        The function verifies the next event of the stream. It returns None for a valid event,
        otherwise the reason to refuse it.

        Args:
            clock: returns the time in epoch seconds.
        """

        def check(date_ms: int, signature: bytes, payload: bytes) -> str | None:
            try:
                self.check(date_ms, signature, payload, clock())
            except EventSignatureInvalid as invalid:
                return str(invalid)
            return None

        return check

    def check(self, date_ms: int, signature: bytes, payload: bytes, now: float) -> None:
        """Verify the next event.

        Args:
            date_ms: the event's ``:date``, in ms since 1970.
            signature: the event's ``:chunk-signature``.
            payload: the outer message's payload: one encoded message, or nothing at the end of the
                input.
            now: epoch seconds.

        Raises:
            EventSignatureInvalid: the event is invalid; so are all later events.
        """
        if self._broken:
            raise EventSignatureInvalid("an earlier event's signature or date was invalid")
        if date_ms < self._earliest_ms:  # rule 1
            raise self._break("the event's date is more than 5 minutes before its request's")
        if date_ms > (now + MAX_CLOCK_SKEW) * 1000:
            raise self._break(
                "the event's date is more than 5 minutes ahead of the gateway's clock"
            )
        second = date_ms // 1000
        if second != self._second:
            self._turn_to(second)
        date_hash = sha256(_DATE_HEADER + date_ms.to_bytes(8, "big", signed=True)).hexdigest()
        string_to_sign = (
            f"{self._head}{self._prior}\n{date_hash}\n{sha256(payload).hexdigest()}".encode()
        )
        if int(now) != self._asked_at:  # rule 5
            self._asked_at = int(now)
            self._taken_away = not self.stands
        expected = hmac.digest(self._key, string_to_sign, "sha256")
        if self._taken_away or not hmac.compare_digest(expected, signature):
            expected = self._by_another_key(string_to_sign, signature)
        self._prior = expected.hex()

    @property
    def stands(self) -> bool:
        """Whether the key of the last event, or of the request, is still valid."""
        return self._is_good(self._secrets[0])

    def _turn_to(self, second: int) -> None:
        timestamp = timestamp_text(second)
        if second // 86400 != self._day:
            self._day = second // 86400
            self._scope = Scope(timestamp[:8], self._region)
            self._derived.clear()  # rule 2
            self._key = self._derive(self._secrets[0])
        self._head = _head(timestamp, self._scope)
        self._second = second

    def _derive(self, secret: str) -> bytes:
        key = self._derived.get(secret)
        if key is None:
            key = self._derived[secret] = derived_key(secret, self._scope)
        return key

    def _by_another_key(self, string_to_sign: bytes, signature: bytes) -> bytes:
        known = self._secrets
        for secret in [*known[1:], *(new for new in self._more_keys() if new not in known)]:
            if not self._is_good(secret):
                continue
            key = self._derive(secret)
            expected = hmac.digest(key, string_to_sign, "sha256")
            if hmac.compare_digest(expected, signature):
                self._secrets = [secret, *(old for old in known if old != secret)]
                self._key = key
                self._taken_away = False
                return expected
        if self._taken_away:
            raise self._break(
                "the event's key was removed from the principal that opened the stream"
            )
        raise self._break(
            "the event's signature does not match its content, its date and its place in the stream"
        )

    def _break(self, reason: str) -> EventSignatureInvalid:
        self._broken = True  # rule 4
        return EventSignatureInvalid(reason)


class EventSigner:
    """Signs the events of one stream, in order; for a client.

    Args:
        credentials: the credentials that signed the request.
        seed_signature_hex: the request's signature.
    """

    __slots__ = ("_prior", "_region", "_secret")

    def __init__(self, credentials: Credentials, region: str, seed_signature_hex: str) -> None:
        self._secret = credentials.secret_access_key
        self._region = region
        self._prior = seed_signature_hex

    def sign(self, date_ms: int, payload: bytes) -> bytes:
        """Return the ``:chunk-signature``, 32 bytes, of the next event.

        Args:
            date_ms: the event's ``:date``, in ms since 1970.
            payload: one encoded message, or nothing at the end of the input.
        """
        timestamp = timestamp_text(date_ms // 1000)
        scope = Scope(timestamp[:8], self._region)
        date_hash = sha256(_DATE_HEADER + date_ms.to_bytes(8, "big", signed=True)).hexdigest()
        string_to_sign = (
            f"{_head(timestamp, scope)}{self._prior}\n{date_hash}\n{sha256(payload).hexdigest()}"
        )
        key = derived_key(self._secret, scope)
        signature = hmac.digest(key, string_to_sign.encode(), "sha256")
        self._prior = signature.hex()
        return signature


def _head(timestamp: str, scope: Scope) -> str:
    return f"AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n"
