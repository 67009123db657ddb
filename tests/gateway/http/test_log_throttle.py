"""partway.gateway.http.log_throttle: what is written of lines that come again and again."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from partway.gateway.http import log_throttle as repeated_lines
from partway.gateway.http.log_throttle import RepeatedLines
from partway.gateway.limits import REPEATED_KINDS, REPEATED_LINES, REPEATED_SECONDS
from partway.log_lines import LogLine, TextFormatter
from tests.gateway.streams.fakes import FakeClock

log = logging.getLogger("partway.gateway")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def repeated(clock: FakeClock, caplog: pytest.LogCaptureFixture) -> Iterator[RepeatedLines]:
    caplog.set_level(logging.INFO)
    repeated = RepeatedLines(clock)
    repeated.open()
    yield repeated
    repeated.close()


def refused(peer: str = "192.0.2.7", error: str = "AccessDenied", number: int = 0) -> LogLine:
    return LogLine("refused", request_id=f"{number:036}", peer=peer, status=403, error=error)


def test_a_flood_of_refusals_is_a_few_lines_and_their_number(repeated, clock, caplog):
    """70 KB of requests were a megabyte of log in five seconds."""
    for number in range(4800):
        log.info(refused(number=number))
        clock.advance(5 / 4800)
    assert [record.msg.fields["request_id"] for record in caplog.records] == [
        f"{number:036}" for number in range(REPEATED_LINES)
    ]
    clock.advance(REPEATED_SECONDS)
    assert caplog.records[-1].getMessage() == (
        "more of the same peer=192.0.2.7 line=refused error=AccessDenied lines=4790 seconds=10.0"
    )
    assert len(caplog.records) == REPEATED_LINES + 1
    form = TextFormatter().format
    assert sum(len(form(record)) for record in caplog.records) < 4000


def test_what_nobody_waits_for_is_told_apart_by_endpoint(repeated, clock, caplog):
    of_async = logging.getLogger("partway.async")
    for number in range(30):
        for endpoint in ("a", "b") if number < 2 else ("a",):
            whose = {"request": str(number), "endpoint": endpoint}
            of_async.warning(LogLine("has no answer", **whose, cause="ModelError"))
    written = [record.msg.fields["endpoint"] for record in caplog.records]
    assert (written.count("a"), written.count("b")) == (REPEATED_LINES, 2)
    clock.advance(REPEATED_SECONDS)
    assert caplog.records[-1].getMessage() == (
        'more of the same line="has no answer" error=ModelError endpoint=a lines=20 seconds=10.0'
    )


def test_an_ipv6_site_is_one_address(repeated, caplog):
    for number in range(100):
        log.info(refused(peer=f"2001:db8::{number:x}"))
    assert len(caplog.records) == REPEATED_LINES


def test_the_first_of_each_kind_is_written(repeated, caplog):
    kinds = [
        refused(),
        refused(peer="192.0.2.8"),
        refused(error="ValidationError"),
        LogLine("client left", peer="192.0.2.7"),
        LogLine("refused", peer="192.0.2.7", error="AccessDenied", endpoint="echo"),
    ]
    for each in kinds:
        for _ in range(100):
            log.info(each)
    assert [record.msg for record in caplog.records] == [
        each for each in kinds for _ in range(REPEATED_LINES)
    ]


def test_lines_at_their_ease_are_all_written(repeated, clock, caplog):
    for number in range(100):
        log.info(refused(number=number))
        clock.advance(REPEATED_SECONDS / REPEATED_LINES)
    assert len(caplog.records) == 100
    assert clock.armed == []


def test_the_next_time_begins_anew(repeated, clock, caplog):
    for _ in range(2):
        for _ in range(REPEATED_LINES + 2):
            log.info(refused())
        clock.advance(REPEATED_SECONDS)
    counted = [record for record in caplog.records if record.msg.event == "more of the same"]
    assert [record.msg.fields["lines"] for record in counted] == [2, 2]
    assert len(caplog.records) == 2 * REPEATED_LINES + 2


def test_the_number_is_written_as_loudly_as_what_was_not(repeated, clock, caplog):
    for _ in range(REPEATED_LINES + 1):
        log.warning(refused(error="ModelError"))
    clock.advance(REPEATED_SECONDS)
    assert caplog.records[-1].levelno == logging.WARNING
    assert caplog.records[-1].name == "partway.gateway"


def test_at_the_end_nothing_is_owed(repeated, clock, caplog):
    for _ in range(REPEATED_LINES + 5):
        log.info(refused())
    repeated.close()
    assert caplog.records[-1].msg.fields["lines"] == 5
    assert clock.armed == []
    for _ in range(100):
        log.info(refused())
    assert len(caplog.records) == REPEATED_LINES + 1 + 100


def test_other_lines_are_let_be(repeated, caplog):
    for _ in range(100):
        log.info("a text")
        log.info(LogLine("stream ended", endpoint="echo"))
        log.info(LogLine("refused", peer=""))
        logging.getLogger("partway.stream").info(LogLine("else", peer="192.0.2.7"))
    assert len(caplog.records) == 400


def test_of_very_many_addresses_little_is_kept(repeated, clock, caplog, monkeypatch):
    monkeypatch.setattr(repeated_lines, "REPEATED_KINDS", 5)
    for number in range(100):
        log.info(refused(peer=f"192.0.2.{number}"))
    assert len(caplog.records) == 5 + REPEATED_LINES
    assert len(repeated._seen) == 6
    clock.advance(REPEATED_SECONDS)
    assert caplog.records[-1].getMessage() == (
        "more of the same peer=others line=refused error=AccessDenied lines=85 seconds=10.0"
    )
    log.info(refused(peer="192.0.2.200"))  # the others' time is over: there is room again
    assert caplog.records[-1].msg.fields["peer"] == "192.0.2.200"
    assert len(repeated._seen) == 1
    assert REPEATED_KINDS > 5
