"""The chain of events, against one made here by hand."""

from __future__ import annotations

import hmac
import struct
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partway.protocol.signatures.verification import (
    Credentials,
    EventChain,
    EventSignatureInvalid,
    EventSigner,
)

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
OTHER = "MDENG+bPxRfiCYEXAMPLEKEYwJalrXUtnFEMI/K7"
REGION = "eu-west-1"
SEED = sha256(b"a request").hexdigest()
NOW = 1_795_206_600  # 20261120T203000Z
MIDNIGHT = 1_795_219_200  # 20261121T000000Z


def sign(
    secret: str, date_ms: int, prior: str, payload: bytes, region: str = REGION, day: str = ""
) -> bytes:
    """Clause 2.4-4, word by word."""
    moment = datetime.fromtimestamp(date_ms // 1000, UTC)
    day = day or moment.strftime("%Y%m%d")
    encoded_date = bytes([5]) + b":date" + bytes([8]) + struct.pack(">q", date_ms)
    assert len(encoded_date) == 15
    lines = [
        "AWS4-HMAC-SHA256-PAYLOAD",
        moment.strftime("%Y%m%dT%H%M%SZ"),
        f"{day}/{region}/sagemaker/aws4_request",
        prior,
        sha256(encoded_date).hexdigest(),
        sha256(payload).hexdigest(),
    ]
    key = ("AWS4" + secret).encode()
    for part in (day, region, "sagemaker", "aws4_request"):
        key = hmac.new(key, part.encode(), sha256).digest()
    return hmac.new(key, "\n".join(lines).encode(), sha256).digest()


def signed_events(
    payloads: list[bytes], dates: list[int], secrets: list[str] | None = None
) -> list[tuple[int, bytes, bytes]]:
    events, prior = [], SEED
    for payload, date_ms, secret in zip(
        payloads, dates, secrets or [SECRET] * len(dates), strict=True
    ):
        signature = sign(secret, date_ms, prior, payload)
        events.append((date_ms, signature, payload))
        prior = signature.hex()
    return events


def new_chain(*secrets: str, more=lambda: ()) -> EventChain:
    return EventChain(secrets or (SECRET,), REGION, NOW, SEED, more)


@pytest.mark.clause("2.4-5")
def test_a_key_that_was_taken_away_signs_nothing_more():
    taken: set[str] = set()
    chain = EventChain([SECRET, OTHER], REGION, NOW, SEED, is_good=lambda key: key not in taken)
    events = signed_events([b"1", b"2", b"3"], [NOW * 1000] * 3)
    date_ms, signature, payload = events[0]
    chain.check(date_ms, signature, payload, NOW)
    assert chain.stands
    taken.add(SECRET)
    assert not chain.stands
    date_ms, signature, payload = events[1]
    chain.check(date_ms, signature, payload, NOW + 0.5)  # it is asked for once a second
    date_ms, signature, payload = events[2]
    with pytest.raises(EventSignatureInvalid, match="key was removed"):
        chain.check(date_ms, signature, payload, NOW + 1)


@pytest.mark.clause("2.4-5")
def test_another_key_may_follow_the_one_that_was_taken_away():
    taken: set[str] = set()
    chain = EventChain(
        [SECRET], REGION, NOW, SEED, lambda: [OTHER], is_good=lambda key: key not in taken
    )
    events = signed_events([b"1", b"2", b"3"], [NOW * 1000] * 3, secrets=[SECRET, OTHER, SECRET])
    for number, (date_ms, signature, payload) in enumerate(events):
        if number < 2:
            chain.check(date_ms, signature, payload, NOW + number)
            taken.add(SECRET)
        else:
            with pytest.raises(EventSignatureInvalid):
                chain.check(date_ms, signature, payload, NOW + number)


#: A date's distance from the request's in ms, forward and back (clause 2.4-5).
OFFSETS = st.integers(-300_000, 300_000)


@pytest.mark.clause("2.4-4", "2.4-5")
@given(st.lists(st.tuples(st.binary(max_size=64), OFFSETS), max_size=8))
@example([(b"x" * 100_000, 0), (b"", 999), (b"", -300_000), (b"", 300_000)])
def test_a_chain(events):
    dates = [NOW * 1000 + offset for _, offset in events]
    payloads = [payload for payload, _ in events]
    signer = EventSigner(Credentials("AKID", SECRET, "token"), REGION, SEED)
    chain = new_chain()
    for date_ms, signature, payload in signed_events(payloads, dates):
        chain.check(date_ms, signature, payload, NOW)
        assert signer.sign(date_ms, payload) == signature


@pytest.mark.clause("2.4-4")
def test_streams_cross_midnight():
    dates = [MIDNIGHT * 1000 + ms for ms in (-120_000, -1, 0, 1, 60_000, -1, 61_000)]
    chain = EventChain([SECRET], REGION, MIDNIGHT - 120, SEED)
    signer = EventSigner(Credentials("AKID", SECRET), REGION, SEED)
    for date_ms, signature, payload in signed_events([b"part"] * len(dates), dates):
        chain.check(date_ms, signature, payload, MIDNIGHT + 60)
        assert signer.sign(date_ms, payload) == signature


@pytest.mark.clause("2.4-4")
def test_the_key_of_the_requests_day_does_not_sign_the_next():
    chain = EventChain([SECRET], REGION, MIDNIGHT - 1, SEED)
    wrong = sign(SECRET, MIDNIGHT * 1000, SEED, b"", day="20261120")
    with pytest.raises(EventSignatureInvalid):
        chain.check(MIDNIGHT * 1000, wrong, b"", MIDNIGHT)


@pytest.mark.clause("2.4-5")
@pytest.mark.parametrize(
    ("date_ms", "now", "reason"),
    [
        ((NOW - 300) * 1000, NOW, None),
        ((NOW - 300) * 1000 - 1, NOW, "more than 5 minutes before its request's"),
        ((NOW + 300) * 1000, NOW, None),
        ((NOW + 300) * 1000 + 1, NOW, "more than 5 minutes ahead"),
        ((NOW - 300) * 1000, NOW + 1700, None),  # queued for long
        ((NOW + 2000) * 1000, NOW + 1700, None),
        (-1, NOW, "before its request's"),
        (-(2**63), NOW, "before its request's"),
        (2**63 - 1, NOW, "ahead"),
    ],
)
def test_dates(date_ms, now, reason):
    chain = new_chain()
    signature = sign(SECRET, date_ms, SEED, b"p") if reason is None else b"\x00" * 32
    if reason is None:
        chain.check(date_ms, signature, b"p", now)
    else:
        with pytest.raises(EventSignatureInvalid, match=reason):
            chain.check(date_ms, signature, b"p", now)


PAYLOAD = bytes(range(64))
MS = NOW * 1000
EVENTS = signed_events([b"one", PAYLOAD, b"", b"four"], [MS, MS + 1, MS + 1500, MS + 1501])


def mutations():
    date_ms, signature, payload = EVENTS[1]
    for at in range(256):
        bit = 1 << at % 8
        changed = bytearray(signature)
        changed[at // 8] ^= bit
        yield date_ms, bytes(changed), payload
    for at in range(len(payload) * 8):
        changed = bytearray(payload)
        changed[at // 8] ^= 1 << at % 8
        yield date_ms, signature, bytes(changed)
    for at in range(64):
        moved = (date_ms ^ 1 << at) - (1 << 64 if at == 63 else 0)
        yield moved, signature, payload
    for off in range(-100, 101):
        if off:
            yield date_ms + off, signature, payload
    for wrong in (b"", signature[:-1], signature + b"\x00", signature.hex().encode(), b"\x00" * 32):
        yield date_ms, wrong, payload
    for wrong in (b"", payload[1:], payload[:-1], payload + b"\x00", payload * 2):
        yield date_ms, signature, wrong
    yield from (EVENTS[0], EVENTS[2], EVENTS[3])  # repeated, one left out, two
    for prior in (SEED, "", EVENTS[1][1].hex(), EVENTS[0][1].hex().upper()):
        yield date_ms, sign(SECRET, date_ms, prior, payload), payload
    yield date_ms, sign(OTHER, date_ms, EVENTS[0][1].hex(), payload), payload
    yield date_ms, sign(SECRET, date_ms, EVENTS[0][1].hex(), payload, "us-east-1"), payload


def test_there_are_a_thousand():
    assert sum(1 for _ in mutations()) >= 1000
    assert EVENTS[1] not in mutations()


@pytest.mark.clause("2.4-4", "2.4-5", "2.4-6", "1.5-10")
def test_mutations_are_refused_and_nothing_passes_after():
    accepted = []
    for mutation in mutations():
        chain = new_chain()
        chain.check(*EVENTS[0], NOW)
        for event in (mutation, EVENTS[1], *EVENTS[2:]):
            try:
                chain.check(*event, NOW)
            except EventSignatureInvalid:
                continue
            accepted.append(mutation)
    assert accepted == []


@pytest.mark.clause("2.4-4")
def test_another_seed():
    chain = EventChain([SECRET], REGION, NOW, sha256(b"another request").hexdigest())
    with pytest.raises(EventSignatureInvalid):
        chain.check(*EVENTS[0], NOW)


@pytest.mark.clause("2.4-5")
@settings(max_examples=50)
@given(st.lists(st.sampled_from([SECRET, OTHER, "third"]), max_size=8))
@example([SECRET, OTHER, OTHER, SECRET])
def test_keys_change_on_the_way(secrets):
    dates = [MS + 400 * at for at in range(len(secrets))]
    chain = new_chain(SECRET, OTHER, "third")
    for event in signed_events([b"x"] * len(secrets), dates, secrets):
        chain.check(*event, NOW)


@pytest.mark.clause("2.4-5")
def test_the_key_that_fits_stays_first_over_midnight():
    asked = []

    def more():
        asked.append(1)
        return (OTHER,)

    dates = [MIDNIGHT * 1000 + ms for ms in (-2, -1, 0, 1)]
    chain = EventChain([SECRET], REGION, MIDNIGHT, SEED, more)
    for event in signed_events([b"x"] * 4, dates, [SECRET, OTHER, OTHER, OTHER]):
        chain.check(*event, MIDNIGHT)
    assert len(asked) == 1


@pytest.mark.clause("2.4-5")
def test_a_key_that_nobody_has():
    chain = new_chain(SECRET, more=lambda: ["yet another"])
    with pytest.raises(EventSignatureInvalid, match="does not match") as caught:
        chain.check(*signed_events([b"x"], [MS], [OTHER])[0], NOW)
    assert SECRET not in repr(caught.value)
    assert "yet another" not in repr(caught.value)


def test_a_chain_without_a_key():
    with pytest.raises(ValueError, match="at least one key"):
        EventChain([], REGION, NOW, SEED)
