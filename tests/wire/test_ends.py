"""The table of ends (section 1.5), row by row, as both sides see it on the wire.

Time is a fake clock's wherever a row depends on it.
"""

from __future__ import annotations

import asyncio
import logging
import re

import pytest

from partway.gateway.fleet.stream_policy import StreamPolicy
from partway.protocol.websocket.frames import FramesToParts, PartsToFrames
from tests.frame_factory import BINARY, CLOSE, CONTINUATION, KEY, PING, PONG, TEXT, close, frame
from tests.wire.dialects import (
    CLEAN,
    PARTIAL,
    UTF8,
    End,
    EnvelopeDialect,
    Error,
    MsgpackDialect,
    Part,
    masked_close,
)
from tests.wire.peers import (
    JSON,
    MSGPACK,
    RAW,
    eventually,
    header,
    soon,
    switching,
    upgrade_request,
)

#: What decides a row's outcome is what was said and the subprotocol, or the setting; no three meet.
pytestmark = pytest.mark.pairwise

NORMALLY = b"\x03\xe8"
AWAY = b"\x03\xe9"

both_normal_closes = pytest.mark.parametrize("normal_close", ["error", "end"])


def logged_causes(caplog):
    """The causes in the log, one line for each stream."""
    return [
        re.search(r" cause=(\w+)$", record.getMessage())[1]
        for record in caplog.records
        if record.getMessage().startswith("stream ended ")
    ]


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.DEBUG)


def assert_ended(gateway, caplog, cause):
    """Every end has exactly one named cause (clause 1.5-13), in metrics and in the log."""
    assert gateway.causes() == {cause: 1}
    assert logged_causes(caplog) == [cause]


async def leave(client, model):
    """Both peers finish their closing handshakes; nothing more may come to either."""
    await client.leave()
    model.abort()


# --- The container closes ------------------------------------------------------------------------

FAULTY_CLOSES = {
    "1011": (close(1011, b"boom"), "1011", "boom"),
    "without a reason": (close(1011), "1011", "Internal Error"),
    "1002": (close(1002, b"you"), "1002", "you"),
    "1003": (close(1003), "1003", "Unsupported Data"),
    "1007": (close(1007), "1007", "Invalid frame payload data"),
    "1008": (close(1008, b"no"), "1008", "no"),
    "1009": (close(1009), "1009", "Message Too Big"),
    "1010": (close(1010), "1010", "Mandatory Ext."),
    "1012": (close(1012), "1012", "Service Restart"),
    "1013": (close(1013, b"later"), "1013", "later"),
    "1014": (close(1014), "1014", "Bad Gateway"),
    "3000": (close(3000), "3000", "Registered code"),
    "4999": (close(4999, "größer".encode()), "4999", "größer"),
}


@pytest.mark.clause("1.5-1")
@both_normal_closes
@pytest.mark.parametrize(("sent", "code", "message"), FAULTY_CLOSES.values(), ids=FAULTY_CLOSES)
async def test_a_close_while_input_is_open_is_a_model_stream_error(
    gateway_for, dialect, caplog, sent, code, message, normal_close
):
    gateway = await gateway_for(StreamPolicy(normal_close=normal_close))
    client, model = await gateway.open(dialect.name)
    model.send(frame(TEXT, b"last words"), sent)
    assert await dialect.read(client) == Part(b"last words", UTF8)
    assert await dialect.read_end(client) == dialect.model_error(code, message)
    answer = await model.frame()
    assert (answer.opcode, answer.masked, answer.close_code) == (CLOSE, True, int(code))
    assert_ended(gateway, caplog, "model_error")
    await leave(client, model)


NORMAL_CLOSES = {
    "1000": (close(1000, b"done"), 1000, "done"),
    "1000 without a reason": (close(1000), 1000, ""),
    "1001": (close(1001, b"bye"), 1001, "bye"),
    "empty": (close(), None, ""),
}
NAMES = {1000: "Normal Closure", 1001: "Going Away", None: "No Status Rcvd"}


@pytest.mark.clause("1.5-1", "1.5-2", "3-2")
@both_normal_closes
@pytest.mark.parametrize(("sent", "code", "reason"), NORMAL_CLOSES.values(), ids=NORMAL_CLOSES)
async def test_a_normal_close_while_input_is_open_is_what_normal_close_says(
    gateway_for, dialect, caplog, sent, code, reason, normal_close
):
    gateway = await gateway_for(StreamPolicy(normal_close=normal_close))
    client, model = await gateway.open(dialect.name)
    model.send(sent)
    if dialect.name == RAW:
        expected = End(None, code, reason)  # passes through, either way
    elif normal_close == "end":
        expected = CLEAN
    else:
        expected = dialect.model_error(str(code or 1005), reason or NAMES[code])
    assert await dialect.read_end(client) == expected
    answer = await model.frame()
    assert (answer.opcode, answer.close_code) == (CLOSE, code)
    assert_ended(gateway, caplog, "model_closed")
    await leave(client, model)


CUTS = {
    "between frames": b"",
    "behind a header": frame(TEXT, announced=9),
    "inside a header": b"\x81",
}


@pytest.mark.clause("1.5-3")
@both_normal_closes
@pytest.mark.parametrize("before", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("how", ["end", "reset", "abort"])
async def test_a_connection_that_ends_without_a_close_is_a_1006(
    gateway_for, dialect, caplog, how, before, normal_close
):
    gateway = await gateway_for(StreamPolicy(normal_close=normal_close))
    client, model = await gateway.open(dialect.name)
    model.send(before)
    getattr(model, how)()
    error = await dialect.read_error(client)
    assert error[:2] == ("ModelStreamError", "1006")
    assert error.message.startswith("Abnormal Closure")
    if how == "end":
        assert await model.eof() == b""
    assert_ended(gateway, caplog, "container_lost")
    await leave(client, model)


@pytest.mark.clause("1.5-3")
async def test_a_write_to_a_container_that_is_gone_is_a_1006(gateway_for, dialect, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    client.send(*[dialect.part(Part(b"x" * 1000))] * 100)
    await model.frame()
    model.reset()
    client.send(*[dialect.part(Part(b"x" * 1000))] * 100)
    assert (await dialect.read_error(client)).code == "1006"
    assert_ended(gateway, caplog, "container_lost")


BROKEN_FRAMES = {
    **{
        f"close {code}": close(code)
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 2000, 2999, 5000, 65535)
    },
    "close of one byte": frame(CLOSE, b"\x03"),
    **{f"opcode {opcode:#x}": frame(opcode, b"x") for opcode in (3, 7, 0xB, 0xF)},
    **{f"RSV {rsv:03b}": frame(TEXT, b"x", rsv=rsv) for rsv in (1, 2, 4, 7)},
    "masked": frame(TEXT, b"x", mask=KEY),
    "masked close": close(1000, mask=KEY),
    "continuation of nothing": frame(CONTINUATION, b"x"),
    "message inside a message": frame(TEXT, b"x", fin=False) + frame(TEXT, b"y"),
    "ping in fragments": frame(PING, b"x", fin=False),
    "pong of 126 bytes": frame(PONG, bytes(126)),
    "close of 126 bytes": close(1000, bytes(124)),
    "length in too many bytes": frame(TEXT, bytes(125), length_form=16),
    "length over 63 bits": frame(BINARY, announced=1 << 63),
}


@pytest.mark.clause("1.5-4")
@pytest.mark.parametrize("sent", BROKEN_FRAMES.values(), ids=BROKEN_FRAMES)
async def test_a_container_that_breaks_rfc_6455_is_a_1002(gateway_for, dialect, caplog, sent):
    gateway = await gateway_for(StreamPolicy(normal_close="end"))
    client, model = await gateway.open(dialect.name)
    model.send(sent, frame(TEXT, b"not to be relayed"))
    if sent == BROKEN_FRAMES["message inside a message"]:
        assert await dialect.read(client) == Part(b"x", UTF8, PARTIAL)
    error = await dialect.read_error(client)
    assert error[:2] == ("ModelStreamError", "1002")
    assert error.message.startswith("Protocol error: ")
    assert (await model.frame()).close_code == 1002
    assert await model.eof() == b""
    assert_ended(gateway, caplog, "container_protocol_error")
    await leave(client, model)


@pytest.mark.clause("1.5-5")
async def test_a_close_reason_that_is_not_utf8_is_a_1007(gateway_for, dialect, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(close(1011, b"\xff\xfe"))
    error = await dialect.read_error(client)
    assert error[:2] == ("ModelStreamError", "1007")
    assert error.message.startswith("Invalid frame payload data")
    assert (await model.frame()).close_code == 1007
    assert_ended(gateway, caplog, "container_invalid_text")
    await leave(client, model)


@pytest.mark.clause("1.5-6")
async def test_a_frame_that_is_too_big_is_a_1009(gateway_for, dialect, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(frame(BINARY, announced=1 << 40))
    assert (await dialect.read_error(client))[:2] == ("ModelStreamError", "1009")
    assert (await model.frame()).close_code == 1009
    assert_ended(gateway, caplog, "container_oversize")
    await leave(client, model)


@pytest.mark.clause("1.5-7")
async def test_a_close_inside_a_message_leaves_its_last_part_partial(gateway_for, dialect, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    model.send(frame(TEXT, b"Hel", fin=False), close(1011, b"boom"))
    assert await dialect.read(client) == Part(b"Hel", UTF8, PARTIAL)
    assert await dialect.read_end(client) == dialect.model_error("1011", "boom")
    assert (await model.frame()).payload == close(1011, b"boom")[2:]
    assert_ended(gateway, caplog, "model_error")
    await leave(client, model)


# --- The gateway ends the stream -----------------------------------------------------------------


@pytest.mark.clause("1.5-8", "1.4-1")
async def test_lost_liveness_names_the_container(gateway_for, dialect, caplog, clock):
    gateway = await gateway_for(StreamPolicy(client_ping_interval=1e6, http2_ping_interval=1e6))
    client, model = await gateway.open(dialect.name)
    clock.advance(359.9)
    assert gateway.causes() == {}
    clock.advance(0.1)
    error = await dialect.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "container" in error.message
    assert [each.opcode for each in await model.frames(6)] == [PING] * 5 + [CLOSE]
    assert model.seen[-1].close_code == 1011
    assert_ended(gateway, caplog, "container_unresponsive")
    await leave(client, model)


@pytest.mark.clause("1.5-8")
@pytest.mark.parametrize("direction", ["down", "up"])
async def test_a_fault_of_the_gateway_ends_only_its_stream(
    gateway_for, dialect, caplog, monkeypatch, direction
):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    other, other_model = await gateway.open(MSGPACK)

    def fail(*_):
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        # A raw client's leg uses both translators, each for one direction: so does this test.
        if direction == "down":
            patch.setattr(FramesToParts, "part", fail)
            model.send(frame(TEXT, b"secret"))
        else:
            patch.setattr(PartsToFrames, "frame", fail)
            client.send(dialect.part(Part(b"secret")))
        error = await dialect.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "bug" not in error.message
    assert (await model.frame()).close_code == 1011
    assert_ended(gateway, caplog, "gateway_fault")
    assert "RuntimeError: a bug" in caplog.text
    assert "secret" not in caplog.text
    other_model.send(frame(BINARY, b"well"))
    assert b"well" in (await other.frame()).payload


@pytest.mark.clause("1.5-9", "1.4-5")
async def test_a_lifetime_that_is_over_is_named(gateway_for, dialect, caplog, clock):
    gateway = await gateway_for(StreamPolicy(lifetime=20.0))
    client, model = await gateway.open(dialect.name)
    clock.advance(19.9)
    assert gateway.causes() == {}
    clock.advance(0.1)
    error = await dialect.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "lifetime of 20 s" in error.message
    assert (await model.frame()).close_code == 1001
    assert_ended(gateway, caplog, "lifetime_over")
    await leave(client, model)


@pytest.mark.clause("1.5-9")
async def test_a_drain_is_named(gateway_for, dialect, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(dialect.name)
    draining = asyncio.create_task(gateway.gateway.drain())
    error = await dialect.read_error(client)
    assert error.name == "InternalStreamFailure"
    assert "draining" in error.message
    assert (await model.frame()).close_code == 1001
    await leave(client, model)
    await soon(draining, "the drain")
    assert_ended(gateway, caplog, "gateway_draining")


# --- The client leaves ---------------------------------------------------------------------------

LEAVING = {
    "cut": (lambda client: client.end(), "client_lost"),
    "reset": (lambda client: client.reset(), "client_lost"),
    "abort": (lambda client: client.abort(), "client_lost"),
    "cut inside a frame": (lambda client: (client.send(b"\x81"), client.end()), "client_lost"),
    "close 1001": (lambda client: client.send_close(1001), "client_cancelled"),
    "close 4000": (lambda client: client.send_close(4000, b"enough"), "client_cancelled"),
}


@pytest.mark.clause("1.5-9", "3-2")
@pytest.mark.parametrize(("leaves", "cause"), LEAVING.values(), ids=LEAVING)
async def test_a_client_that_leaves_cancels_the_stream(
    gateway_for, subprotocol, caplog, leaves, cause
):
    gateway = await gateway_for()
    client, model = await gateway.open(subprotocol.name)
    client.send(subprotocol.part(Part(b"a", UTF8, PARTIAL)))
    leaves(client)
    assert await model.frames(1) == [(False, TEXT, True, model.seen[0].key, b"a")]
    assert (await model.frame()).close_code == 1001
    assert_ended(gateway, caplog, cause)
    model.send(close(1001))
    model.abort()
    assert await model.eof() == b""


@pytest.mark.clause("1.5-9", "3-1")
@pytest.mark.parametrize("code", [None, 1000])
async def test_a_close_abandons_the_response_where_input_end_is_an_event(
    gateway_for, envelope, caplog, code
):
    gateway = await gateway_for()
    client, model = await gateway.open(envelope.name)
    client.send_close(code)
    assert (await client.frame()).close_code == code
    assert await client.eof() == b""
    await model.until_close()
    model.send(close(1000))
    await eventually(lambda: bool(gateway.causes()))
    assert_ended(gateway, caplog, "client_finished")


@pytest.mark.clause("3-2", "1.5-9")
@pytest.mark.parametrize("input_end", ["auto", "close", "drain"])
@pytest.mark.parametrize("code", [None, 1000])
async def test_a_raw_clients_close_abandons_the_response(gateway_for, caplog, code, input_end):
    """There is nobody to compute for: the container hears 1001, whatever ends an input."""
    gateway = await gateway_for(StreamPolicy(input_end=input_end))
    client, model = await gateway.open(RAW)
    client.send_frame(TEXT, b"all")
    client.send_close(code)
    assert (await client.frame()).close_code == code
    assert await client.eof() == b""  # at once: whoever closed hears nothing more
    assert (await model.frame()).payload == b"all"
    assert (await model.frame()).payload == AWAY + b"client finished"
    assert_ended(gateway, caplog, "client_finished")
    model.send(frame(TEXT, b"to nobody"), close(1001))
    model.end()
    assert await model.eof() == b""


# --- The client is at fault ----------------------------------------------------------------------


def bad_events(envelope):
    """Messages that are no event of a client, and the close code that names each."""
    other = frame(TEXT if envelope.opcode == BINARY else BINARY, b"x", mask=KEY)
    bytes_member = envelope.bytes_member(b"x")
    return {
        "wrong opcode": (other, 1003),
        "no envelope": (frame(envelope.opcode, b"\xc1{", mask=KEY), 1007),
        "empty": (frame(envelope.opcode, b"", mask=KEY), 1007),
        "unknown event": (envelope.event({"Payload": {}}), 1007),
        "two events": (envelope.event({"PayloadPart": {}, "InputEnd": {}}), 1007),
        "unknown member": (
            envelope.event({"PayloadPart": {"Bytes": bytes_member, "Completionstate": "x"}}),
            1007,
        ),
        "wrong DataType": (
            envelope.event({"PayloadPart": {"Bytes": bytes_member, "DataType": "utf8"}}),
            1007,
        ),
        "wrong CompletionState": (
            envelope.event({"PayloadPart": {"Bytes": bytes_member, "CompletionState": ""}}),
            1007,
        ),
        "wrong Bytes": (envelope.event({"PayloadPart": {"Bytes": 7}}), 1007),
        "an error": (envelope.event({"InternalStreamFailure": {"Message": "x"}}), 1007),
    }


@pytest.mark.clause("1.5-10", "3-1")
@pytest.mark.parametrize("which", bad_events(MsgpackDialect()))
async def test_nothing_after_a_bad_event_is_relayed(gateway_for, envelope, caplog, which):
    sent, code = bad_events(envelope)[which]
    gateway = await gateway_for()
    client, model = await gateway.open(envelope.name)
    client.send(envelope.part(Part(b"good")), sent, envelope.part(Part(b"not to be relayed")))
    assert (await model.frame()).payload == b"good"
    refused = await model.frame()
    assert (refused.opcode, refused.close_code) == (CLOSE, 1008)
    end = await envelope.read_end(client)
    assert end.event["ModelStreamError"]["ErrorCode"] == "InputStreamError"
    assert end.code == code
    assert_ended(gateway, caplog, "client_fault")
    await leave(client, model)


@pytest.mark.clause("1.5-10")
async def test_a_part_after_the_end_of_input_is_a_fault(gateway_for, events, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.end(), events.part(Part(b"late")))
    error = await events.read_error(client)
    assert error[:2] == ("ModelStreamError", "InputStreamError")
    assert [each.payload for each in await model.until_close()] == [NORMALLY]
    assert_ended(gateway, caplog, "client_fault")


CLIENT_BREAKS = {
    "unmasked": frame(TEXT, b"x"),
    "RSV": frame(TEXT, b"x", rsv=4, mask=KEY),
    "opcode": frame(3, b"x", mask=KEY),
    "continuation of nothing": frame(CONTINUATION, b"x", mask=KEY),
    "ping in fragments": frame(PING, b"x", fin=False, mask=KEY),
    "close 1005": masked_close(1005),
    "close of one byte": frame(CLOSE, b"\x03", mask=KEY),
    "length in too many bytes": frame(BINARY, bytes(9), length_form=64, mask=KEY),
}


@pytest.mark.clause("1.5-10")
@pytest.mark.parametrize("sent", CLIENT_BREAKS.values(), ids=CLIENT_BREAKS)
async def test_a_client_that_breaks_rfc_6455_is_at_fault(gateway_for, subprotocol, caplog, sent):
    gateway = await gateway_for()
    client, model = await gateway.open(subprotocol.name)
    client.send(sent, subprotocol.part(Part(b"not to be relayed")))
    if isinstance(subprotocol, EnvelopeDialect):
        event = await subprotocol.read_event(client)
        assert event["ModelStreamError"]["ErrorCode"] == "InputStreamError"
    assert (await client.frame()).close_code == 1002
    assert await client.eof() == b""
    assert [each.close_code for each in await model.until_close()] == [1008]
    assert_ended(gateway, caplog, "client_fault")


# --- The client ends its input -------------------------------------------------------------------


FINAL_CLOSES = [close(1000, b"done"), close(1001), close()]


@pytest.mark.clause("1.5-11", "1.5-12")
@both_normal_closes
@pytest.mark.parametrize("sent", FINAL_CLOSES, ids=["1000", "1001", "empty"])
async def test_after_the_end_of_input_frames_go_on_until_the_containers_close(
    gateway_for, events, caplog, sent, normal_close
):
    gateway = await gateway_for(StreamPolicy(normal_close=normal_close))
    client, model = await gateway.open(events.name)
    client.send(events.part(Part(b"all", UTF8)), events.end())
    assert [each.payload for each in await model.until_close()] == [b"all", NORMALLY]
    model.send(frame(TEXT, b"ta", fin=False), frame(CONTINUATION, b"il"), sent)
    assert await events.read(client) == Part(b"ta", UTF8, PARTIAL)
    assert await events.read(client) == Part(b"il", UTF8)
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")
    await leave(client, model)


AFTER_INPUT = {
    "1011": (lambda model: model.send(close(1011, b"boom")), "1011", "model_error"),
    "4000": (lambda model: model.send(close(4000)), "4000", "model_error"),
    "1002": (lambda model: model.send(close(1002)), "1002", "model_error"),
    "EOF": (lambda model: model.end(), "1006", "container_lost"),
    "RST": (lambda model: model.reset(), "1006", "container_lost"),
    "RSV": (lambda model: model.send(frame(TEXT, rsv=1)), "1002", "container_protocol_error"),
    "too big": (
        lambda model: model.send(frame(TEXT, announced=1 << 40)),
        "1009",
        "container_oversize",
    ),
}


@pytest.mark.clause("1.5-12")
@both_normal_closes
@pytest.mark.parametrize("input_end", ["close", "drain"])
@pytest.mark.parametrize(("does", "code", "cause"), AFTER_INPUT.values(), ids=AFTER_INPUT)
async def test_after_the_end_of_input_other_ends_are_errors(
    gateway_for, events, caplog, does, code, cause, input_end, normal_close
):
    policy = StreamPolicy(input_end=input_end, normal_close=normal_close)
    gateway = await gateway_for(policy)
    client, model = await gateway.open(events.name)
    client.send(events.end())
    await client.caught_up()
    does(model)
    assert (await events.read_error(client))[:2] == ("ModelStreamError", code)
    assert_ended(gateway, caplog, cause)
    await leave(client, model)


@pytest.mark.clause("1.5-12")
async def test_a_1002_that_answers_a_close_inside_a_message_is_clean(gateway_for, events, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.part(Part(b"cut", UTF8, PARTIAL)), events.end())
    await model.until_close()
    model.send(close(1002, b"inside a message"))
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")


@pytest.mark.clause("1.5-12")
async def test_a_close_that_is_not_answered_ends_after_ten_seconds_of_silence(
    gateway_for, events, caplog, clock
):
    gateway = await gateway_for(StreamPolicy(input_end="close", client_ping_interval=1e6))
    client, model = await gateway.open(events.name)
    client.send(events.end())
    await model.until_close()
    for _ in range(3):
        clock.advance(9.0)
        model.send(frame(TEXT, b"tail"))
        assert await events.read(client) == Part(b"tail", UTF8)
    clock.advance(9.9)
    assert gateway.causes() == {}
    clock.advance(0.1)
    message = (
        "the container was silent for 10 s after Close(1000) (close_timeout), "
        "and has not answered it"
    )
    assert await events.read_error(client) == Error("InternalStreamFailure", None, message)
    assert_ended(gateway, caplog, "container_close_timeout")
    await leave(client, model)


@pytest.mark.clause("1.5-12")
async def test_while_draining_each_frame_starts_the_silence_anew(
    gateway_for, events, caplog, clock
):
    gateway = await gateway_for(StreamPolicy(input_end="drain"))
    client, model = await gateway.open(events.name)
    client.send(events.end())
    await client.caught_up()
    for _ in range(3):
        clock.advance(2.75)
        model.send(frame(TEXT, b"tail"))
        assert await events.read(client) == Part(b"tail", UTF8)
    clock.advance(2.75)
    model.send(frame(PING, b"no frame of data"))
    # The first frame that the container gets: nothing was sent at the end of input.
    assert await model.frame() == (True, PONG, True, model.seen[0].key, b"no frame of data")
    clock.advance(0.25)
    assert (await model.frame()).payload == NORMALLY
    model.send(frame(TEXT, b"the very last"), close(1000))
    assert await events.read(client) == Part(b"the very last", UTF8)
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")
    await leave(client, model)


@pytest.mark.clause("1.5-12")
async def test_after_draining_a_close_that_is_not_answered_ends_the_stream(
    gateway_for, events, caplog, clock
):
    gateway = await gateway_for(StreamPolicy(input_end="drain", close_timeout=3.5))
    client, model = await gateway.open(events.name)
    client.send(events.end())
    await client.caught_up()
    clock.advance(3.0)
    assert (await model.frame()).payload == NORMALLY
    clock.advance(3.4)
    assert gateway.causes() == {}
    clock.advance(0.1)
    message = (await events.read_error(client)).message
    assert "silent for 3.5 s after Close(1000) (close_timeout)" in message
    assert_ended(gateway, caplog, "container_close_timeout")


# --- input_end = "auto" --------------------------------------------------------------------------


#: Times pass here in which nobody pings.
UNPINGED = StreamPolicy(ping_interval=1e6, client_ping_interval=1e6, http2_ping_interval=1e6)


async def asked_a_question(gateway, events):
    """A stream whose client has asked and said all, and the container's end of it."""
    client, model = await gateway.open(events.name)
    client.send(events.part(Part(b"a question", UTF8)), events.end())
    assert (await model.frame()).payload == b"a question"
    return client, model


def keeps_quiet_about_it(request):
    """The 101 of a container that does not say when it answers a Close."""
    return switching(request, finishes=False)


@pytest.mark.clause("1.5-12")
async def test_a_container_that_finishes_first_hears_at_once_and_is_waited_for(
    gateway_for, events, caplog, clock
):
    gateway = await gateway_for(UNPINGED)
    client, model = await asked_a_question(gateway, events)
    assert (await model.frame()).payload == NORMALLY
    for _ in range(3):
        clock.advance(59.0)
        model.send(frame(TEXT, b"a late word"))
        assert await events.read(client) == Part(b"a late word", UTF8)
    model.send(close(1000))
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")


@pytest.mark.clause("1.5-12")
async def test_one_that_does_not_say_so_hears_when_it_has_answered_and_is_silent(
    gateway_for, container, events, caplog, clock
):
    container.answer = keeps_quiet_about_it
    gateway = await gateway_for(UNPINGED)
    client, model = await asked_a_question(gateway, events)
    await client.caught_up()
    clock.advance(59.0)
    for word in (b"at", b"long", b"last"):
        model.send(frame(TEXT, word))
        assert await events.read(client) == Part(word, UTF8)
        clock.advance(2.75)
    model.send(frame(PING, b"nothing more"))
    # The first frame since the question: nobody has told it that there will be no other one.
    assert (await model.frame())[:2] == (True, PONG)
    clock.advance(0.25)
    assert (await model.frame()).payload == NORMALLY
    model.send(close(1000))
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")
    assert "parts_saved=3" in caplog.text


@pytest.mark.clause("1.5-12")
async def test_one_that_does_not_answer_at_all_holds_its_slot_for_a_minute(
    gateway_for, container, events, caplog, clock
):
    container.answer = keeps_quiet_about_it
    gateway = await gateway_for(UNPINGED)
    client, model = await asked_a_question(gateway, events)
    await client.caught_up()
    clock.advance(60.0)
    assert (await model.frame()).payload == NORMALLY
    model.send(close(1000))
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")
    assert "has been silent for 60 s after the input's end (answer_timeout)" in caplog.text


@pytest.mark.clause("1.5-12")
@pytest.mark.parametrize(
    ("policy", "finishes", "said"),
    [
        ({}, True, "close"),
        ({}, False, "auto"),
        ({"input_end": "close"}, False, "close"),
        ({"input_end": "drain"}, True, "drain"),
    ],
)
async def test_a_client_is_told_what_the_end_of_its_input_will_mean(
    gateway_for, container, policy, finishes, said
):
    container.answer = lambda request: switching(request, finishes=finishes)
    gateway = await gateway_for(StreamPolicy(**policy))
    client = await gateway.connect()
    await client.upgrade(upgrade_request())
    assert header(client.head, "x-partway-input-end") == said


@pytest.mark.clause("1.5-12")
@both_normal_closes
@pytest.mark.parametrize("sent", FINAL_CLOSES, ids=["1000", "1001", "empty"])
async def test_while_draining_the_containers_own_normal_close_is_clean(
    gateway_for, events, caplog, sent, normal_close
):
    policy = StreamPolicy(input_end="drain", normal_close=normal_close)
    gateway = await gateway_for(policy)
    client, model = await gateway.open(events.name)
    client.send(events.end())
    await client.caught_up()
    model.send(frame(BINARY, b"tail"), sent)
    assert await events.read(client) == Part(b"tail")
    assert await events.read(client) == CLEAN
    assert [each.payload for each in await model.until_close()] == [sent[2:]]
    assert_ended(gateway, caplog, "completed")
    await leave(client, model)


@pytest.mark.clause("1.5-12")
async def test_input_ends_but_once(gateway_for, events, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(events.name)
    client.send(events.end(), events.end())
    assert [each.payload for each in await model.until_close()] == [NORMALLY]
    model.send(close(1000))
    assert await events.read(client) == CLEAN
    assert_ended(gateway, caplog, "completed")


@pytest.mark.clause("1.5-9", "1.5-12")
@pytest.mark.parametrize("input_end", ["auto", "close", "drain"])
async def test_a_client_that_leaves_after_its_input_ended_is_gone(
    gateway_for, envelope, caplog, input_end
):
    gateway = await gateway_for(StreamPolicy(input_end=input_end))
    client, model = await gateway.open(envelope.name)
    client.send(envelope.end())
    await client.caught_up()
    client.send_close(1001)
    assert await client.frames(1) == [(True, CLOSE, False, b"", AWAY)]
    # One Close to the container at most: its first word stands.
    expected = AWAY if input_end == "drain" else NORMALLY
    assert (await model.frame()).payload[:2] == expected
    if expected is NORMALLY:  # clause 1.5-13: a model that has had its Close hears of it by TCP
        assert await model.eof() == b""
    assert_ended(gateway, caplog, "client_cancelled")


# --- Closes that cross, Closes that cannot be written --------------------------------------------


@pytest.mark.clause("1.5-13")
async def test_closes_that_cross_between_gateway_and_container(gateway_for, caplog, clock):
    gateway = await gateway_for(StreamPolicy(lifetime=5.0))
    client, model = await gateway.open(MSGPACK)
    clock.advance(5.0)
    model.send(close(1011, b"me too"))  # before it has read the gateway's
    assert [each.close_code for each in await model.until_close()] == [1001]
    model.end()
    assert await model.eof() == b""  # the gateway's Close was the answer as well
    assert [each.close_code for each in await client.until_close()][-1] == 4500
    assert_ended(gateway, caplog, "lifetime_over")
    await leave(client, model)


@pytest.mark.clause("1.5-13")
async def test_closes_that_cross_between_client_and_gateway(gateway_for, subprotocol, caplog):
    gateway = await gateway_for()
    client, model = await gateway.open(subprotocol.name)
    model.send(close(1011, b"first"))
    await model.until_close()  # answered, so the stream has ended
    client.send_close(4000, b"second")
    assert await subprotocol.read_end(client) == subprotocol.model_error("1011", "first")
    assert await client.eof() == b""
    assert_ended(gateway, caplog, "model_error")


@pytest.mark.clause("1.5-13")
async def test_the_first_end_counts(gateway_for, caplog, clock):
    gateway = await gateway_for(StreamPolicy(lifetime=5.0))
    client, model = await gateway.open(JSON)
    client.end()
    assert (await model.frame()).close_code == 1001
    model.reset()
    clock.advance(5.0)
    await soon(gateway.gateway.drain(), "the drain")
    assert_ended(gateway, caplog, "client_lost")


@pytest.mark.clause("1.5-13")
@pytest.mark.parametrize("side", ["client", "container"])
async def test_a_close_that_cannot_be_written_becomes_an_abort(gateway_for, caplog, clock, side):
    """Neither peer reads: the Close stays behind 12 MiB, and the connection is given up."""
    gateway = await gateway_for(StreamPolicy(lifetime=5.0))
    client, model = await gateway.open(RAW, receive_buffer=4096)
    big = 12 << 20
    if side == "client":
        stuck, other = client, model
        model.send(frame(BINARY, bytes(big)))
    else:
        stuck, other = model, client
        client.send_frame(BINARY, bytes(big))
    await relayed(gateway, 1)
    clock.advance(5.0)
    assert_ended(gateway, caplog, "lifetime_over")
    await other.until_close()
    other.send(masked_close(1001) if other is client else close(1001))
    if other is client:
        assert await other.eof() == b""
    clock.advance(5.0)  # a little may have been taken since the end
    clock.advance(5.0)
    with pytest.raises(EOFError):
        await stuck.frame()


async def relayed(gateway, parts):
    """Wait until so many parts have come through the gateway, in both directions together."""
    (session,) = gateway.gateway.streams.sessions
    await eventually(lambda: session.from_client.parts + session.from_container.parts >= parts)


async def test_the_end_is_counted_on_the_metrics_page(gateway_for):
    gateway = await gateway_for()
    _, model = await gateway.open(RAW)
    model.send(close(1011))
    await model.until_close()
    page = await gateway.request(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b'partway_stream_ends_total{cause="model_error",endpoint="model"} 1.0\n' in page.body
