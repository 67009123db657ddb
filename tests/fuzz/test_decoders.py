"""A short run of the fuzzer, and that it finds what it looks for."""

from __future__ import annotations

import re

import pytest

from partway.protocol.event_stream.headers import EventStreamError
from partway.protocol.websocket.frame_decoder import FrameError
from tests import event_factory as events
from tests.fuzz import decoders
from tests.fuzz.decoders import Found, Target, fuzz, targets


def test_a_short_run():
    for target in targets():
        for number in range(4 * decoders.GROWN_EVERY):
            target.try_one(0, number)
        assert target.results > 10, f"{target.name}: nothing got through"
        assert target.refusals > 10, f"{target.name}: nothing was refused"


def test_an_input_follows_from_its_seed():
    def inputs(seed):
        given = []
        target = Target("any", [b"abc"], lambda pieces: given.append(b"".join(pieces)) or (), ())
        for number in range(1, 50):
            target.try_one(seed, number)
        return given

    assert inputs(1) == inputs(1) != inputs(2)


def planted(decode):
    return Target("planted", [b"a" * 20, b"b" * 20], decode, (FrameError,))


def test_an_undeclared_error_is_found():
    def decode(pieces):
        if b"\0" in b"".join(pieces):
            raise KeyError
        yield 1

    with pytest.raises(Found, match=r"KeyError is none of its errors\n--seed 3 --target") as caught:
        fuzz([planted(decode)], seconds=20, seed=3)
    assert isinstance(caught.value.__cause__, KeyError)


def test_results_that_depend_on_the_cutting_are_found():
    def decode(pieces):
        yield from (piece for piece in pieces if piece)

    with pytest.raises(Found, match="other results of pieces of"):
        fuzz([planted(decode)], seconds=20, seed=0)


class Cost:
    """A clock by which a decoder says what it costs: so a busy machine changes nothing of it."""

    def __init__(self):
        self.seconds = 0.0

    def __call__(self):
        return self.seconds

    def copied(self, count):
        self.seconds += count * 1e-9


def grow(decode, cost):
    """Give the planted decoder inputs that are grown, and then come in one piece."""
    target = planted(decode)
    target.clock = cost
    for number in (500, 600, 700):
        assert number % decoders.GROWN_EVERY == 0
        target.try_one(0, number)


def test_quadratic_time_is_found():
    cost = Cost()

    def decode(pieces):
        buffer = 0
        for piece in pieces:
            buffer += len(piece)
            while buffer > 1:
                buffer -= 2
                cost.copied(buffer)  # as each step does that copies all that follows
            yield 1

    with pytest.raises(Found, match=r"time grows faster than its input"):
        grow(decode, cost)


def test_linear_time_is_none_of_it():
    """Slow as it may be: four times the bytes take it four times as long."""
    cost = Cost()

    def decode(pieces):
        for piece in pieces:
            cost.copied(1000 * len(piece))
            yield from piece

    grow(decode, cost)
    assert cost.seconds > decoders.LEAST_TIME * decoders.GROWTH_OF_TIME


def test_mended_messages_reach_what_is_behind_the_checksums():
    (target, *_) = targets()
    reasons = set()
    decode = target.decode

    def noting(pieces):
        try:
            yield from decode(pieces)
        except EventStreamError as error:
            reasons.add(re.sub(r" [0-9]+.*|,.*", "", error.reason))
            raise

    target.decode = noting
    for number in range(1, 2000):
        target.try_one(0, number)
    assert {
        "unknown header type",
        "the headers end inside the field at byte",
        "a header name is empty",
        "a name or a string is not UTF-8",
        "the prelude's checksum is wrong",
        "the message's checksum is wrong",
    } <= reasons


def test_the_command(capsys):
    assert decoders.main(["--seconds", "0.2", "--target", "json"]) == 0
    assert "inputs" in capsys.readouterr().out
    assert decoders.main(["--target", "request events", "--seed", "7", "--number", "31337"]) == 0
    assert "1 inputs" in capsys.readouterr().out


def test_the_command_fails_on_a_find(capsys, monkeypatch):
    def decode(pieces):
        raise KeyError
        yield

    monkeypatch.setattr(decoders, "targets", lambda: [planted(decode)])
    assert decoders.main(["--seconds", "5"]) == 1
    assert "KeyError is none of its errors" in capsys.readouterr().err


def test_mending_makes_a_whole_message():
    data = events.part(b"Hello ")
    assert decoders.mend_message(data) == data
    assert decoders.mend_message(data[:30] + data[35:]) != data[:30] + data[35:]
    (read,) = events.read(decoders.mend_message(events.message(b"", b"payload", total=99, crc=1)))
    assert read.payload == b"payload"
