from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from partway.gateway.streams.ends import Cause, ClientFault
from partway.gateway.streams.states import (
    TRANSITIONS,
    SessionAction,
    SessionEvent,
    SessionState,
)
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
)
from partway.protocol.websocket.close_codes import Close
from partway.protocol.websocket.frame_decoder import FrameError
from tests.gateway.streams.fakes import FakeStream

WHOLE = PayloadPart(b"whole", DataType.UTF8)
BEGUN = PayloadPart(b"begun", DataType.UTF8, CompletionState.PARTIAL)

#: Times that the tests below can tell apart.
CLOSE_TIMEOUT, DRAIN_TIMEOUT, STALL_TIMEOUT, LIFETIME = 7.0, 5.0, 20.0, 100.0
ANSWER_TIMEOUT = 17.0
TIMES = {
    "close_timeout": CLOSE_TIMEOUT,
    "drain_timeout": DRAIN_TIMEOUT,
    "answer_timeout": ANSWER_TIMEOUT,
    "stall_timeout": STALL_TIMEOUT,
    "lifetime": LIFETIME,
}

Input = Callable[[FakeStream], object]


# --- Inputs, by name -----------------------------------------------------------------------------


def part_up(stream: FakeStream) -> None:
    stream.client.arrive(lambda: stream.session.part_from_client(WHOLE))


def begun_up(stream: FakeStream) -> None:
    stream.client.arrive(lambda: stream.session.part_from_client(BEGUN))


def input_end(stream: FakeStream) -> None:
    stream.client.arrive(stream.session.input_ended)


def client_finished(stream: FakeStream) -> None:
    stream.client.arrive(stream.session.client_finished)


def client_gone(cause: Cause) -> Input:
    return lambda stream: stream.session.client_gone(cause)


def client_failed(fault: ClientFault) -> Input:
    return lambda stream: stream.client.arrive(lambda: stream.session.client_failed(fault))


def client_blocked(stream: FakeStream) -> None:
    stream.session.client_blocked()


def client_drained(stream: FakeStream) -> None:
    stream.session.client_drained()


def part_down(stream: FakeStream) -> None:
    stream.container.arrive(lambda: stream.session.part_from_container(WHOLE))


def begun_down(stream: FakeStream) -> None:
    stream.container.arrive(lambda: stream.session.part_from_container(BEGUN))


def finishes_first(stream: FakeStream) -> None:
    stream.container.finishes_before_close = True


def container_close(code: int | None = None, reason: str = "") -> Input:
    return lambda stream: stream.container.arrive(
        lambda: stream.session.container_closed(Close(code, reason))
    )


def container_breaks(code: int) -> Input:
    return lambda stream: stream.container.arrive(
        lambda: stream.session.container_failed(FrameError(code, "what it did"))
    )


def container_lost(stream: FakeStream) -> None:
    stream.session.container_lost()


def container_unresponsive(stream: FakeStream) -> None:
    stream.session.container_unresponsive()


def container_blocked(stream: FakeStream) -> None:
    stream.session.container_blocked()


def container_drained(stream: FakeStream) -> None:
    stream.session.container_drained()


def gateway_drains(stream: FakeStream) -> None:
    stream.session.drain()


def gateway_fails(stream: FakeStream) -> None:
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        stream.session.failed()


def seconds(count: float) -> Input:
    return lambda stream: stream.clock.advance(count)


# --- The table of ends ---------------------------------------------------------------------------

FAULT = ClientFault("bad envelope", client_close=1007)
OVERSIZE = ClientFault("too much", oversize=True, client_close=1009)
FORGED = ClientFault("forged", "InvalidSignature")

ENDS_THE_INPUT = ("auto", "close", "drain")
CALLS_NORMAL = ("error", "end")

CLEAN = None


def model(code: int | str, message: str) -> ModelStreamError:
    return ModelStreamError(str(code), message)


def failure(message: str) -> InternalStreamFailure:
    return InternalStreamFailure(message)


def closing(*then: Input) -> list[Input]:
    """Into CLOSING, whichever way the policy goes there: the client has sent nothing."""
    return [input_end, seconds(DRAIN_TIMEOUT), *then]


LOST = model(1006, "Abnormal Closure: the container's connection ended without a Close")
NO_ANSWER = failure(
    "the container was silent for 7 s after Close(1000) (close_timeout), and has not answered it"
)
NOT_FINISHED = failure(
    "the container was silent for 17 s after Close(1000) (answer_timeout), and has not answered it"
)
OVER = failure(f"the stream reached its lifetime of {LIFETIME:g} s")
DRAINING = failure("the gateway is draining; open the stream again")
FAILED = failure("the gateway failed; its log has the reason under this request id")
SILENT = failure("the container answered none of 5 pings")
INPUT_ENDED = Close(1000)
LEFT = Close(1001, "client finished")

#: Clause, policy, inputs → cause, the client's error, every Close that the session gives the
#: container. A Close that answers the container's own, or its breach of RFC 6455, is the
#: connection's affair. A policy that is not named is tried with all its values.
TABLE = [
    # While the client's input is open.
    ("1.5-1", {"normal_close": "error"}, [container_close(1000, "bye")],
     Cause.MODEL_CLOSED, model(1000, "bye"), []),
    ("1.5-1", {"normal_close": "error"}, [container_close(1001)],
     Cause.MODEL_CLOSED, model(1001, "Going Away"), []),
    ("1.5-1", {"normal_close": "end"}, [container_close(1000, "bye")],
     Cause.MODEL_CLOSED, CLEAN, []),
    ("1.5-1", {"normal_close": "end"}, [container_close(1001)],
     Cause.MODEL_CLOSED, CLEAN, []),
    ("1.5-1", {}, [container_close(1011, "boom")],
     Cause.MODEL_ERROR, model(1011, "boom"), []),
    ("1.5-1", {}, [container_close(1007)],
     Cause.MODEL_ERROR, model(1007, "Invalid frame payload data"), []),
    ("1.5-1", {}, [container_close(4001)],
     Cause.MODEL_ERROR, model(4001, "Private use code"), []),
    ("1.5-2", {"normal_close": "error"}, [container_close()],
     Cause.MODEL_CLOSED, model(1005, "No Status Rcvd"), []),
    ("1.5-2", {"normal_close": "end"}, [container_close()],
     Cause.MODEL_CLOSED, CLEAN, []),
    ("1.5-3", {}, [container_lost], Cause.CONTAINER_LOST, LOST, []),
    ("1.5-4", {}, [container_breaks(1002)],
     Cause.CONTAINER_PROTOCOL_ERROR, model(1002, "Protocol error: what it did"), []),
    ("1.5-5", {}, [container_breaks(1007)],
     Cause.CONTAINER_INVALID_TEXT, model(1007, "Invalid frame payload data: what it did"), []),
    ("1.5-6", {}, [container_breaks(1009)],
     Cause.CONTAINER_OVERSIZE, model(1009, "Message Too Big: what it did"), []),
    ("1.5-8", {}, [container_unresponsive],
     Cause.CONTAINER_UNRESPONSIVE, SILENT, [Close(1011, "no pong for 5 pings")]),
    ("1.5-8", {}, [container_blocked, seconds(STALL_TIMEOUT)],
     Cause.CONTAINER_STALLED, failure("the container took no byte for 20 s"),
     [Close(1011, "stalled")]),
    ("1.5-8", {}, [client_blocked, seconds(STALL_TIMEOUT)],
     Cause.CLIENT_STALLED, failure("the client took no byte for 20 s"),
     [Close(1011, "the client stalled")]),
    ("1.5-8", {}, [gateway_fails],
     Cause.GATEWAY_FAULT, FAILED, [Close(1011, "gateway fault")]),
    ("1.5-9", {}, [seconds(LIFETIME)],
     Cause.LIFETIME_OVER, OVER, [Close(1001, "stream lifetime over")]),
    ("1.5-9", {}, [gateway_drains],
     Cause.GATEWAY_DRAINING, DRAINING, [Close(1001, "gateway draining")]),
    ("1.5-9", {}, [client_gone(Cause.CLIENT_CANCELLED)],
     Cause.CLIENT_CANCELLED, CLEAN, [Close(1001, "client cancelled")]),
    ("1.5-9", {}, [client_gone(Cause.CLIENT_LOST)],
     Cause.CLIENT_LOST, CLEAN, [Close(1001, "client lost")]),
    ("1.5-9", {}, [client_gone(Cause.CLIENT_UNRESPONSIVE)],
     Cause.CLIENT_UNRESPONSIVE, CLEAN, [Close(1001, "client unresponsive")]),
    ("1.5-10", {}, [client_failed(FAULT)],
     Cause.CLIENT_FAULT, model("InputStreamError", "bad envelope"),
     [Close(1008, "client fault: InputStreamError")]),
    ("1.5-10", {}, [client_failed(OVERSIZE)],
     Cause.CLIENT_FAULT, model("InputStreamError", "too much"),
     [Close(1009, "client fault: InputStreamError")]),
    ("1.5-10", {}, [client_failed(FORGED)],
     Cause.CLIENT_FAULT, model("InvalidSignature", "forged"),
     [Close(1008, "client fault: InvalidSignature")]),

    # After the client's input has ended and the container has our Close.
    ("1.5-12", {}, closing(container_close(1000)), Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {}, closing(container_close(1001)), Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {}, closing(container_close()), Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {}, closing(part_down, part_down, container_close(1000)),
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {}, [begun_up, *closing(container_close(1002))],
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "close"}, [part_up, *closing(container_close(1002))],
     Cause.MODEL_ERROR, model(1002, "Protocol error"), [INPUT_ENDED]),
    ("1.5-12", {}, [begun_up, *closing(container_close(1003))],
     Cause.MODEL_ERROR, model(1003, "Unsupported Data"), [INPUT_ENDED]),
    ("1.5-12", {}, closing(container_close(1011, "boom")),
     Cause.MODEL_ERROR, model(1011, "boom"), [INPUT_ENDED]),
    ("1.5-12", {}, closing(container_lost), Cause.CONTAINER_LOST, LOST, [INPUT_ENDED]),
    ("1.5-12", {}, closing(seconds(CLOSE_TIMEOUT)),
     Cause.CONTAINER_CLOSE_TIMEOUT, NO_ANSWER, [INPUT_ENDED]),
    ("1.5-12", {}, closing(part_down, seconds(CLOSE_TIMEOUT)),
     Cause.CONTAINER_CLOSE_TIMEOUT, NO_ANSWER, [INPUT_ENDED]),
    ("1.5-4", {}, closing(container_breaks(1002)),
     Cause.CONTAINER_PROTOCOL_ERROR, model(1002, "Protocol error: what it did"), [INPUT_ENDED]),
    ("1.5-10", {}, closing(part_up),
     Cause.CLIENT_FAULT, model("InputStreamError", "a part came after the end of input"),
     [INPUT_ENDED, Close(1008, "client fault: InputStreamError")]),
    ("1.5-9", {}, closing(gateway_drains),
     Cause.GATEWAY_DRAINING, DRAINING, [INPUT_ENDED, Close(1001, "gateway draining")]),

    # While what the container still says is waited for, without a Close of ours.
    ("1.5-12", {"input_end": "drain"}, [input_end, container_close(1000)],
     Cause.COMPLETED, CLEAN, []),
    ("1.5-12", {"input_end": "drain"}, [input_end, container_close(1001)],
     Cause.COMPLETED, CLEAN, []),
    ("1.5-12", {"input_end": "drain"}, [begun_up, input_end, container_close(1002)],
     Cause.MODEL_ERROR, model(1002, "Protocol error"), []),
    ("1.5-12", {"input_end": "drain"}, [input_end, container_close(4001, "mine")],
     Cause.MODEL_ERROR, model(4001, "mine"), []),
    ("1.5-12", {"input_end": "drain"}, [input_end, container_lost],
     Cause.CONTAINER_LOST, LOST, []),
    ("1.5-10", {"input_end": "drain"}, [input_end, part_up],
     Cause.CLIENT_FAULT, model("InputStreamError", "a part came after the end of input"),
     [Close(1008, "client fault: InputStreamError")]),
    ("1.5-12", {"input_end": "drain"}, [input_end, seconds(DRAIN_TIMEOUT + CLOSE_TIMEOUT)],
     Cause.CONTAINER_CLOSE_TIMEOUT, NO_ANSWER, [INPUT_ENDED]),

    # While an answer is waited for, or its silence: the container has not said that it finishes.
    ("1.5-12", {"input_end": "auto"}, [part_up, input_end, container_close(1000)],
     Cause.COMPLETED, CLEAN, []),
    ("1.5-12", {"input_end": "auto"}, [part_up, input_end, container_close(1011, "boom")],
     Cause.MODEL_ERROR, model(1011, "boom"), []),
    ("1.5-12", {"input_end": "auto"}, [part_up, input_end, container_lost],
     Cause.CONTAINER_LOST, LOST, []),
    ("1.5-12", {"input_end": "auto"},
     [part_up, input_end, seconds(16), part_down, seconds(DRAIN_TIMEOUT), container_close(1000)],
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "auto"},
     [part_up, part_down, seconds(DRAIN_TIMEOUT), input_end, seconds(0), container_close(1000)],
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "auto"},
     [part_up, input_end, seconds(ANSWER_TIMEOUT), container_close(1000)],
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "auto"},
     [part_up, input_end, seconds(ANSWER_TIMEOUT + CLOSE_TIMEOUT)],
     Cause.CONTAINER_CLOSE_TIMEOUT, NO_ANSWER, [INPUT_ENDED]),
    ("1.5-10", {"input_end": "auto"}, [part_up, input_end, part_up],
     Cause.CLIENT_FAULT, model("InputStreamError", "a part came after the end of input"),
     [Close(1008, "client fault: InputStreamError")]),

    # The container has said that it finishes before it answers a Close.
    ("1.5-12", {"input_end": "auto"},
     [finishes_first, part_up, input_end, seconds(16), part_down, seconds(16),
      container_close(1000)],
     Cause.COMPLETED, CLEAN, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "auto"},
     [finishes_first, part_up, input_end, seconds(ANSWER_TIMEOUT)],
     Cause.CONTAINER_CLOSE_TIMEOUT, NOT_FINISHED, [INPUT_ENDED]),
    ("1.5-12", {"input_end": "close"},
     [finishes_first, part_up, input_end, seconds(CLOSE_TIMEOUT)],
     Cause.CONTAINER_CLOSE_TIMEOUT, NO_ANSWER, [INPUT_ENDED]),

    # A raw client has closed: there is nobody to answer any more.
    ("3-2", {}, [client_finished], Cause.CLIENT_FINISHED, CLEAN, [LEFT]),
    ("3-2", {}, [part_up, part_down, client_finished], Cause.CLIENT_FINISHED, CLEAN, [LEFT]),
    ("3-2", {}, closing(client_finished), Cause.CLIENT_FINISHED, CLEAN, [INPUT_ENDED, LEFT]),
]  # fmt: skip


def each_of(policy: dict[str, str]) -> list[dict[str, str]]:
    return [
        {"input_end": ends, "normal_close": normal, **policy}
        for ends in ENDS_THE_INPUT
        for normal in CALLS_NORMAL
        if {"input_end": ends, "normal_close": normal, **policy}.items()
        == {"input_end": ends, "normal_close": normal}.items()
    ]


def rows() -> list[Any]:
    return [
        pytest.param(
            policy,
            inputs,
            cause,
            error,
            closes,
            id=f"{clause}-{number}-{policy['input_end']}-{policy['normal_close']}",
            marks=pytest.mark.clause(clause),
        )
        for number, (clause, fixed, inputs, cause, error, closes) in enumerate(TABLE)
        for policy in each_of(fixed)
    ]


@pytest.mark.parametrize(("policy", "inputs", "cause", "error", "closes"), rows())
def test_the_table_of_ends(policy, inputs, cause, error, closes):
    stream = FakeStream(**TIMES, **policy)
    for step in inputs:
        assert stream.session.state is not SessionState.ENDED, "an earlier input ended it"
        step(stream)
    ending = stream.session.ending
    assert stream.session.state is SessionState.ENDED
    assert (ending.cause, ending.error) == (cause, error)
    assert stream.container_gets == closes
    assert stream.ended == [stream.session]
    assert stream.client.endings == stream.container.endings == [ending]
    assert stream.clock.armed == []


def test_every_cause_is_in_the_table():
    """All but the one that response streams alone have."""
    assert {row[3] for row in TABLE} == set(Cause) - {Cause.CONTAINER_SILENT}


@pytest.mark.clause("1.5-10")
def test_nothing_after_a_fault_is_relayed():
    stream = FakeStream(**TIMES)
    part_up(stream)
    client_failed(FAULT)(stream)
    part_up(stream)
    assert stream.container.sent == [WHOLE]
    assert stream.session.ending.client_close == 1007


@pytest.mark.clause("1.5-7", "1.2-7")
@pytest.mark.parametrize("input_end_policy", ENDS_THE_INPUT)
def test_no_fin_is_made_up(input_end_policy):
    """Neither for a message that the client leaves open, nor for one that the container does."""
    stream = FakeStream(**TIMES, input_end=input_end_policy)
    begun_up(stream)
    stream.session.part_from_container(BEGUN)
    for step in closing(container_close(1000)):
        step(stream)
    assert stream.container.sent == [BEGUN]
    assert stream.client.sent == [BEGUN]


# --- Closing, in time ----------------------------------------------------------------------------


@pytest.mark.clause("1.5-11", "1.5-12")
def test_the_close_goes_out_at_once_and_frames_go_on_until_the_containers_own():
    stream = FakeStream(**TIMES, input_end="close")
    part_up(stream)
    input_end(stream)
    assert stream.container.closes == [INPUT_ENDED]
    for _ in range(5):  # each buys the time anew: a model that speaks has not failed
        stream.clock.advance(CLOSE_TIMEOUT - 0.1)
        part_down(stream)
    assert stream.client.sent == [WHOLE] * 5
    assert stream.session.state is SessionState.CLOSING
    stream.clock.advance(CLOSE_TIMEOUT - 0.1)
    assert stream.session.state is SessionState.CLOSING
    stream.clock.advance(0.1)
    assert stream.session.ending.cause is Cause.CONTAINER_CLOSE_TIMEOUT


def test_a_model_that_speaks_for_ever_is_ended_by_the_streams_lifetime():
    stream = FakeStream(**TIMES, input_end="close")
    part_up(stream)
    input_end(stream)
    while stream.session.state is SessionState.CLOSING:
        stream.clock.advance(1.0)
        part_down(stream)
    assert stream.session.ending.cause is Cause.LIFETIME_OVER
    assert stream.clock.now == 1000.0 + LIFETIME


# --- When the container hears of the input's end -------------------------------------------------


@pytest.mark.clause("1.5-12")
@pytest.mark.parametrize(
    "before",
    [
        [],
        [part_down],  # a container that speaks first has answered nothing
        [part_up, begun_up],
        [part_up, part_down, begun_up],
        [finishes_first, part_up],
    ],
    ids=["nothing-sent", "spoken-first", "inside-a-message", "inside-the-next", "it-finishes"],
)
def test_with_nothing_to_wait_for_it_hears_at_once(before):
    stream = FakeStream(**TIMES)
    for step in before:
        step(stream)
    input_end(stream)
    assert stream.container.closes == [INPUT_ENDED]
    assert stream.session.state is SessionState.CLOSING


@pytest.mark.clause("1.5-12")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([part_up, input_end, part_down], DRAIN_TIMEOUT),
        ([part_up, input_end, begun_down, part_down], DRAIN_TIMEOUT),
        ([part_up, part_down, seconds(2), input_end], DRAIN_TIMEOUT - 2),
        ([part_up, part_up, part_down, input_end], DRAIN_TIMEOUT),  # the answers crossed
        ([part_up, input_end], ANSWER_TIMEOUT),
        ([part_up, part_down, part_up, input_end], ANSWER_TIMEOUT),
        ([part_up, seconds(9), input_end], ANSWER_TIMEOUT),
        ([part_up, input_end, begun_down], ANSWER_TIMEOUT),
        ([part_up, begun_down, input_end], ANSWER_TIMEOUT),
        ([part_up, input_end, part_down, seconds(4), begun_down], ANSWER_TIMEOUT),
    ],
)
def test_it_hears_after_its_answer_and_a_silence(before, after):
    stream = FakeStream(**TIMES)
    for step in before:
        step(stream)
    stream.clock.advance(after - 0.1)
    assert stream.session.state is SessionState.AWAITING
    assert stream.container.closes == []
    stream.clock.advance(0.2)
    assert stream.container.closes == [INPUT_ENDED]


@pytest.mark.clause("1.5-12")
def test_an_answer_of_many_messages_with_pauses_is_waited_for():
    stream = FakeStream(**TIMES)
    part_up(stream)
    input_end(stream)
    for _ in range(20):
        stream.clock.advance(DRAIN_TIMEOUT - 0.5)
        part_down(stream)
    assert stream.session.state is SessionState.AWAITING
    assert stream.session.parts_saved == 20
    stream.clock.advance(DRAIN_TIMEOUT)
    part_down(stream)
    assert stream.session.parts_saved == 20, "the container has its Close"
    assert stream.client.sent == [WHOLE] * 21


@pytest.mark.clause("1.5-12")
def test_silence_begins_when_the_container_has_taken_the_last_part():
    stream = FakeStream(**TIMES)
    part_up(stream)
    part_down(stream)
    stream.container.unsent = 100
    part_up(stream)
    part_down(stream)
    input_end(stream)
    stream.clock.advance(4 * DRAIN_TIMEOUT)
    assert stream.session.state is SessionState.AWAITING
    stream.container.taken += 100
    stream.clock.advance(DRAIN_TIMEOUT - 0.1)
    assert stream.session.state is SessionState.AWAITING
    stream.clock.advance(DRAIN_TIMEOUT / 10 + 0.1)
    assert stream.container.closes == [INPUT_ENDED]


@pytest.mark.clause("1.5-12")
def test_silence_is_not_counted_while_the_container_was_not_read():
    """What it went on to say has waited behind what a slow client had not taken."""
    stream = FakeStream(**TIMES)
    part_up(stream)
    part_down(stream)
    client_blocked(stream)
    stream.clock.advance(4 * DRAIN_TIMEOUT - 1)
    client_drained(stream)
    input_end(stream)
    stream.clock.advance(DRAIN_TIMEOUT - 0.1)
    assert stream.session.state is SessionState.AWAITING
    stream.clock.advance(0.2)
    assert stream.container.closes == [INPUT_ENDED]


@pytest.mark.clause("1.5-12")
def test_a_silent_stream_that_held_its_slot_is_spoken_of(caplog):
    stream = FakeStream(**TIMES)
    part_up(stream)
    input_end(stream)
    stream.clock.advance(ANSWER_TIMEOUT)
    container_close(1000)(stream)
    assert stream.session.ending.cause is Cause.COMPLETED
    (said,) = caplog.messages
    assert said == (
        'no whole answer endpoint=echo request_id=r-1 reason="the container has been silent '
        "for 17 s after the input's end (answer_timeout)\""
    )


# --- Closing, in time, goes on -------------------------------------------------------------------


@pytest.mark.clause("1.5-12")
def test_the_containers_time_to_answer_begins_when_it_has_our_close():
    """A Close queues behind unsent data, and a slow container is not a silent one."""
    stream = FakeStream(**TIMES)
    stream.container.unsent = 3
    input_end(stream)
    for _ in range(3):
        stream.clock.advance(CLOSE_TIMEOUT - 1)
        stream.container.taken += 1
        stream.clock.advance(1)
        assert stream.session.state is SessionState.CLOSING
    stream.clock.advance(CLOSE_TIMEOUT)
    assert stream.session.ending.cause is Cause.CONTAINER_CLOSE_TIMEOUT


def test_legs_and_counts_are_let_go_whatever_raises():
    stream = FakeStream(**TIMES)

    def fail(ending):
        raise RuntimeError("a leg's fault")

    stream.container.finish = fail
    with pytest.raises(RuntimeError, match="a leg's fault"):
        stream.session.container_lost()
    assert len(stream.client.endings) == 1
    assert stream.ended == [stream.session]


def test_each_frame_while_draining_buys_the_drain_timeout_anew():
    stream = FakeStream(**TIMES, input_end="drain")
    input_end(stream)
    for _ in range(5):
        stream.clock.advance(DRAIN_TIMEOUT - 0.1)
        part_down(stream)
    assert stream.session.state is SessionState.AWAITING
    assert stream.container.closes == []
    stream.clock.advance(DRAIN_TIMEOUT - 0.1)
    assert stream.container.closes == []
    stream.clock.advance(0.1)
    assert stream.container.closes == [INPUT_ENDED]
    assert stream.session.state is SessionState.CLOSING


@pytest.mark.clause("1.5-12")
@pytest.mark.parametrize("blocked_first", [True, False], ids=["blocked-first", "ended-first"])
@pytest.mark.parametrize("input_end_policy", ENDS_THE_INPUT)
def test_its_timer_stops_while_the_container_is_not_read(input_end_policy, blocked_first):
    """Its Close, or its next frame, may wait unseen behind what a slow client has not taken."""
    stream = FakeStream(**TIMES, input_end=input_end_policy)
    part_up(stream)
    timeout, state = {
        "auto": (ANSWER_TIMEOUT, SessionState.AWAITING),
        "close": (CLOSE_TIMEOUT, SessionState.CLOSING),
        "drain": (DRAIN_TIMEOUT, SessionState.AWAITING),
    }[input_end_policy]
    for step in (client_blocked, input_end) if blocked_first else (input_end, client_blocked):
        step(stream)
    for _ in range(3):
        stream.clock.advance(timeout)
        stream.client.taken += 1  # slow, but no stall
    assert stream.session.state is state
    stream.clock.advance(1.0)
    client_drained(stream)
    stream.clock.advance(timeout - 0.1)
    assert stream.session.state is state
    stream.clock.advance(0.1)
    assert stream.session.state is not state


@pytest.mark.clause("1.5-12")
def test_a_close_that_waited_behind_a_slow_client_is_the_end():
    stream = FakeStream(**TIMES)
    client_blocked(stream)
    input_end(stream)
    part_down(stream)
    container_close(1000)(stream)
    stream.clock.advance(STALL_TIMEOUT - 5)
    assert stream.session.state is SessionState.CLOSING
    client_drained(stream)
    assert stream.client.sent == [WHOLE]
    assert stream.session.ending.cause is Cause.COMPLETED


@pytest.mark.clause("1.5-12")
def test_a_client_that_stalls_meanwhile_is_still_found():
    stream = FakeStream(**TIMES)
    client_blocked(stream)
    input_end(stream)
    stream.clock.advance(STALL_TIMEOUT)
    assert stream.session.ending.cause is Cause.CLIENT_STALLED


def test_blocked_by_a_frame_while_draining_no_timer_runs():
    """The frame arms the timer and blocks the client; the block comes last and counts."""
    stream = FakeStream(**TIMES, input_end="drain")
    input_end(stream)
    stream.client.block_on_send = True
    part_down(stream)
    stream.clock.advance(DRAIN_TIMEOUT + 1)
    assert stream.session.state is SessionState.AWAITING


# --- Closes that cross ---------------------------------------------------------------------------


@pytest.mark.clause("1.5-1", "1.5-12")
@pytest.mark.parametrize("code", [None, 1000, 1001, 1011])
@pytest.mark.parametrize("normal_close", CALLS_NORMAL)
def test_whose_close_came_first_decides(code, normal_close):
    """The same two Closes, the other way round on the way through the gateway."""
    normal = code != 1011

    theirs_first = FakeStream(**TIMES, normal_close=normal_close)
    container_close(code)(theirs_first)
    input_end(theirs_first)
    cause = Cause.MODEL_CLOSED if normal else Cause.MODEL_ERROR
    assert theirs_first.session.ending.cause is cause
    assert theirs_first.container_gets == []
    assert (theirs_first.session.ending.error is None) is (normal and normal_close == "end")

    ours_first = FakeStream(**TIMES, normal_close=normal_close)
    input_end(ours_first)
    container_close(code)(ours_first)
    cause = Cause.COMPLETED if normal else Cause.MODEL_ERROR
    assert ours_first.session.ending.cause is cause
    assert ours_first.container_gets == [INPUT_ENDED]
    assert (ours_first.session.ending.error is None) is normal


@pytest.mark.clause("1.5-13")
@pytest.mark.parametrize("held", [container_close(1000), container_close(1011), part_down])
def test_a_raw_client_leaves_while_the_container_is_held_back(held):
    """What was held back comes out at once, perhaps as the stream's end: one end, not two."""
    stream = FakeStream(**TIMES)
    client_blocked(stream)
    held(stream)
    client_finished(stream)
    assert stream.session.state is SessionState.ENDED
    assert stream.session.ending.cause is Cause.CLIENT_FINISHED
    assert stream.ended == [stream.session]
    assert len(stream.client.endings) == len(stream.container.endings) == 1
    assert stream.client.sent == []
    assert stream.clock.armed == []


# --- Back-pressure -------------------------------------------------------------------------------


def test_a_leg_that_blocks_pauses_the_other_one():
    stream = FakeStream(**TIMES)
    stream.container.block_on_send = True
    part_up(stream)
    part_up(stream)
    assert (stream.client.paused, stream.container.paused) == (True, False)
    assert stream.container.sent == [WHOLE]
    container_drained(stream)
    assert not stream.client.paused
    assert stream.container.sent == [WHOLE, WHOLE]

    stream.client.block_on_send = True
    part_down(stream)
    part_down(stream)
    assert (stream.client.paused, stream.container.paused) == (False, True)
    assert stream.client.sent == [WHOLE]
    client_drained(stream)
    assert stream.client.sent == [WHOLE, WHOLE]


def test_what_is_held_back_may_block_again():
    stream = FakeStream(**TIMES)
    container_blocked(stream)
    part_up(stream)
    part_up(stream)
    stream.container.block_on_send = True
    container_drained(stream)
    assert stream.container.sent == [WHOLE]
    assert stream.client.paused
    stream.clock.advance(STALL_TIMEOUT)
    assert stream.session.ending.cause is Cause.CONTAINER_STALLED


@pytest.mark.clause("1.4-2")
@pytest.mark.parametrize("side", ["client", "container"])
def test_slow_progress_is_no_stall(side):
    stream = FakeStream(**TIMES)
    blocked, leg = {
        "client": (client_blocked, stream.client),
        "container": (container_blocked, stream.container),
    }[side]
    blocked(stream)
    while stream.clock.now < 1000.0 + LIFETIME - STALL_TIMEOUT:
        stream.clock.advance(STALL_TIMEOUT - 2.1)
        leg.taken += 1
    assert stream.session.state is SessionState.RELAYING


# --- The start -----------------------------------------------------------------------------------


def held_at_start(*client: Input, container: tuple[Input, ...] = ()) -> FakeStream:
    """A stream whose peers have spoken before the legs are heard."""
    stream = FakeStream(**TIMES, start=False)
    for leg, inputs in ((stream.client, client), (stream.container, container)):
        leg.held += [lambda step=step: step(stream) for step in inputs]
    stream.session.start()
    return stream


def test_what_comes_with_the_handshakes_is_relayed():
    stream = held_at_start(begun_up, part_up, container=(part_down,))
    assert stream.container.sent == [BEGUN, WHOLE]
    assert stream.client.sent == [WHOLE]
    assert not stream.client.paused
    assert not stream.container.paused


@pytest.mark.parametrize(
    "early",
    [client_gone(Cause.CLIENT_LOST), client_failed(FAULT), container_lost, container_close(1011)],
)
def test_a_stream_may_end_while_it_starts(early):
    stream = held_at_start(early)
    assert stream.ended == [stream.session]
    assert len(stream.client.endings) == len(stream.container.endings) == 1
    assert stream.clock.armed == []


# --- What is counted -----------------------------------------------------------------------------


def test_counts_and_times():
    stream = FakeStream(**TIMES)
    part_up(stream)
    stream.clock.advance(2.0)
    part_down(stream)
    stream.clock.advance(1.0)
    part_down(stream)
    container_lost(stream)
    stream.session.part_from_container(WHOLE)
    session = stream.session
    assert (session.from_client.parts, session.from_client.bytes) == (1, 5)
    assert (session.from_container.parts, session.from_container.bytes) == (2, 10)
    times = (session.started_at, session.first_part_at, session.ended_at)
    assert times == (1000.0, 1002.0, 1003.0)


# --- closed() ------------------------------------------------------------------------------------


async def test_closed_waits_for_both_legs():
    stream = FakeStream(**TIMES)
    waiting = asyncio.create_task(stream.session.closed())
    container_lost(stream)
    stream.session.leg_closed()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.session.leg_closed()
    await asyncio.wait_for(waiting, 20)


async def test_closed_may_be_asked_late_or_given_up():
    stream = FakeStream(**TIMES)
    waiting = asyncio.create_task(stream.session.closed())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    container_lost(stream)
    stream.session.leg_closed()
    stream.session.leg_closed()
    await asyncio.wait_for(stream.session.closed(), 1)


# --- The table of states -------------------------------------------------------------------------


def in_state(state: SessionState) -> FakeStream:
    stream = FakeStream(**TIMES, input_end="drain")
    ways: dict[SessionState, list[Input]] = {
        SessionState.RELAYING: [],
        SessionState.AWAITING: [input_end],
        SessionState.CLOSING: closing(),
        SessionState.ENDED: [gateway_drains],
    }
    for step in ways[state]:
        step(stream)
    assert stream.session.state is state
    return stream


def input_end_by(policy: str) -> Input:
    def ends(stream: FakeStream) -> None:
        session = stream.session
        session.policy = dataclasses.replace(session.policy, input_end=policy)
        session.input_ended()

    return ends


EVENTS: dict[SessionEvent, Input] = {
    SessionEvent.PART_FROM_CLIENT: part_up,
    SessionEvent.INPUT_ENDED_CLOSE_NOW: input_end_by("close"),
    SessionEvent.INPUT_ENDED_CLOSE_LATER: input_end_by("drain"),
    SessionEvent.CLIENT_FINISHED: client_finished,
    SessionEvent.CLIENT_GONE: client_gone(Cause.CLIENT_LOST),
    SessionEvent.CLIENT_FAILED: client_failed(FAULT),
    SessionEvent.CLIENT_BLOCKED: client_blocked,
    SessionEvent.CLIENT_DRAINED: client_drained,
    SessionEvent.CLIENT_STALLED: lambda stream: stream.session._client_stalled(),
    SessionEvent.PART_FROM_CONTAINER: part_down,
    SessionEvent.CONTAINER_CLOSED: container_close(1000),
    SessionEvent.CONTAINER_FAILED: container_breaks(1002),
    SessionEvent.CONTAINER_LOST: container_lost,
    SessionEvent.CONTAINER_UNRESPONSIVE: container_unresponsive,
    SessionEvent.CONTAINER_BLOCKED: container_blocked,
    SessionEvent.CONTAINER_DRAINED: container_drained,
    SessionEvent.CONTAINER_STALLED: lambda stream: stream.session._container_stalled(),
    SessionEvent.CONTAINER_SILENT: lambda stream: stream.session._container_silent(),
    SessionEvent.LIFETIME_OVER: lambda stream: stream.session._lifetime_over(),
    SessionEvent.GATEWAY_DRAINING: gateway_drains,
    SessionEvent.GATEWAY_FAILED: gateway_fails,
}

#: The calls that both legs get, by action.
ASKED = {
    SessionAction.NOTHING: [],
    SessionAction.RELAY: ["send"],
    SessionAction.RELAY_TAIL: ["send"],
    SessionAction.RELAY_SAVED: ["send"],
    SessionAction.AWAIT: [],
    SessionAction.CLOSE: ["close"],
    SessionAction.PAUSE: ["pause_reading"],
    SessionAction.RESUME: ["resume_reading"],
    SessionAction.END: ["finish", "finish"],
    SessionAction.END_AWAITED: ["finish", "finish"],
    SessionAction.END_ANSWERED: ["finish", "finish"],
}


@pytest.mark.parametrize("state", SessionState)
@pytest.mark.parametrize("event", SessionEvent)
def test_a_session_does_what_the_table_says(state, event):
    stream = in_state(state)
    legs = (stream.client, stream.container)
    before = [len(leg.calls) for leg in legs]
    if (state, event) not in TRANSITIONS:
        with pytest.raises(ValueError, match=f"in the state {state} cannot have this"):
            EVENTS[event](stream)
        return
    EVENTS[event](stream)
    asked = [call for leg, first in zip(legs, before, strict=True) for call in leg.calls[first:]]
    following, action = TRANSITIONS[state, event]
    assert stream.session.state is following
    assert asked == ASKED[action]
    assert stream.session.parts_saved == (action is SessionAction.RELAY_SAVED)


# --- State × input, all pairs --------------------------------------------------------------------


class AllPairs(RuleBasedStateMachine):
    """Any order of inputs. Held-back frames come out in the middle of what releases them."""

    @initialize(
        input_end=st.sampled_from(ENDS_THE_INPUT),
        normal_close=st.sampled_from(CALLS_NORMAL),
        finishes=st.booleans(),
    )
    def open(self, input_end, normal_close, finishes):
        self.stream = FakeStream(**TIMES, input_end=input_end, normal_close=normal_close)
        self.policy = self.stream.session.policy
        self.finishes = self.stream.container.finishes_before_close = finishes
        self.heard_at = self.now
        self.answered = self.answering = False
        self.blocked = {"client": False, "container": False}
        self.held = {"client": [], "container": []}
        #: Deadlines of what ends the stream by itself, each with its cause.
        self.lifetime = self.now + LIFETIME
        self.closing_due = None  # or of the next step of the closing
        self.stalled_since = {"client": None, "container": None}
        self.state = SessionState.RELAYING
        self.causes = None
        self.sent_up = []
        self.sent_down = []
        self.closes = []
        self.calls_at_end = None
        self.legs_left = 2

    # What should be so.

    @property
    def now(self):
        return self.stream.clock.now

    def ends(self, *causes):
        if self.state is not SessionState.ENDED:
            self.state = SessionState.ENDED
            self.causes = set(causes)

    def arm(self, since=None):
        """The closing's timer runs unless the container is not read."""
        auto = self.policy.input_end == "auto"
        if self.state is SessionState.CLOSING:
            timeout = ANSWER_TIMEOUT if auto and self.finishes else CLOSE_TIMEOUT
        else:
            whole = self.answered and not self.answering
            timeout = DRAIN_TIMEOUT if whole or not auto else ANSWER_TIMEOUT
        since = self.now if since is None else since
        self.closing_due = None if self.blocked["client"] else max(self.now, since + timeout)

    def close(self):
        self.state = SessionState.CLOSING
        self.closes.append(INPUT_ENDED)
        self.arm()

    def expect_part_down(self, part):
        if self.state is SessionState.ENDED:
            return
        self.heard_at = self.now
        self.answering = part is BEGUN
        self.answered |= part is WHOLE
        if self.state is not SessionState.RELAYING:
            self.arm()
        self.sent_down.append(part)

    def expect_close(self, code):
        normal = code in (None, 1000, 1001)
        if self.state is SessionState.RELAYING:
            self.ends(Cause.MODEL_CLOSED if normal else Cause.MODEL_ERROR)
        else:
            mid_message = bool(self.sent_up) and self.sent_up[-1] is BEGUN
            cut = self.state is SessionState.CLOSING and code == 1002 and mid_message
            self.ends(Cause.COMPLETED if normal or cut else Cause.MODEL_ERROR)

    def expect_breach(self, code):
        self.ends(
            {1002: Cause.CONTAINER_PROTOCOL_ERROR, 1007: Cause.CONTAINER_INVALID_TEXT}.get(
                code, Cause.CONTAINER_OVERSIZE
            )
        )

    def expect_part_up(self, part):
        if self.state is SessionState.RELAYING:
            self.sent_up.append(part)
            self.answered = False
        else:
            self.ends(Cause.CLIENT_FAULT)

    def expect_input_end(self):
        if self.state is not SessionState.RELAYING:
            return
        auto = self.policy.input_end == "auto"
        unanswerable = not self.sent_up or self.sent_up[-1] is BEGUN
        if self.policy.input_end == "close" or (auto and (unanswerable or self.finishes)):
            self.close()
        else:
            self.state = SessionState.AWAITING
            whole = self.answered and not self.answering
            self.arm(self.heard_at if auto and whole else self.now)

    def expect_client_finished(self):
        self.ends(Cause.CLIENT_FINISHED)

    def block(self, side):
        if self.state is SessionState.ENDED:
            return
        if not self.blocked[side]:
            self.blocked[side] = True
            self.stalled_since[side] = self.now
        if side == "client":
            self.closing_due = None

    def unblock(self, side):
        self.blocked[side] = False
        self.stalled_since[side] = None

    def release(self, side):
        """What the leg holds back is delivered, as far as nothing blocks again or ends."""
        while self.held[side] and self.state is not SessionState.ENDED:
            name, *arguments = self.held[side].pop(0)
            getattr(self, f"expect_{name}")(*arguments)

    # Inputs. A frame that comes while its leg is paused is held back, by the leg and here.

    def frame(self, side, name, *arguments):
        paused = self.blocked["container" if side == "client" else "client"]
        if paused and self.state is not SessionState.ENDED:
            self.held[side].append((name, *arguments))
        else:
            getattr(self, f"expect_{name}")(*arguments)

    @rule(part=st.sampled_from([WHOLE, BEGUN]))
    def part_up(self, part):
        self.frame("client", "part_up", part)
        self.stream.client.arrive(lambda: self.stream.session.part_from_client(part))

    @rule()
    def input_ends(self):
        self.frame("client", "input_end")
        input_end(self.stream)

    @rule()
    def a_raw_client_closes(self):
        self.frame("client", "client_finished")
        client_finished(self.stream)

    @rule(
        cause=st.sampled_from(
            [Cause.CLIENT_CANCELLED, Cause.CLIENT_LOST, Cause.CLIENT_UNRESPONSIVE]
        )
    )
    def the_client_goes(self, cause):
        self.ends(cause)
        client_gone(cause)(self.stream)

    @rule(fault=st.sampled_from([FAULT, OVERSIZE, FORGED]))
    def the_client_errs(self, fault):
        self.ends(Cause.CLIENT_FAULT)
        self.stream.session.client_failed(fault)

    @rule()
    def the_client_blocks(self):
        self.block("client")
        client_blocked(self.stream)

    @rule()
    def the_client_drains(self):
        self.unblock("client")
        if self.state in (SessionState.CLOSING, SessionState.AWAITING):
            self.arm()
        self.release("container")
        client_drained(self.stream)

    @rule()
    def the_container_blocks(self):
        self.block("container")
        container_blocked(self.stream)

    @rule()
    def the_container_drains(self):
        self.unblock("container")
        self.release("client")
        container_drained(self.stream)

    @rule(part=st.sampled_from([WHOLE, BEGUN]), blocks=st.booleans())
    def part_down(self, part, blocks):
        """Perhaps the one with which the client is over its high-water mark."""
        blocks = blocks and not self.blocked["client"]
        self.frame("container", "part_down", part)
        if blocks and self.state is not SessionState.ENDED:
            self.stream.client.block_on_send = True
            self.block("client")
        (part_down if part is WHOLE else begun_down)(self.stream)

    @rule(code=st.sampled_from([None, 1000, 1001, 1002, 1011, 4001]))
    def the_container_closes(self, code):
        self.frame("container", "close", code)
        container_close(code)(self.stream)

    @rule(code=st.sampled_from([1002, 1007, 1009]))
    def the_container_breaks_the_rules(self, code):
        self.frame("container", "breach", code)
        container_breaks(code)(self.stream)

    @rule()
    def the_container_is_lost(self):
        self.ends(Cause.CONTAINER_LOST)
        container_lost(self.stream)

    @rule()
    def the_container_is_silent(self):
        self.ends(Cause.CONTAINER_UNRESPONSIVE)
        container_unresponsive(self.stream)

    @rule()
    def the_gateway_drains(self):
        self.ends(Cause.GATEWAY_DRAINING)
        gateway_drains(self.stream)

    @rule()
    def the_gateway_fails(self):
        self.ends(Cause.GATEWAY_FAULT)
        gateway_fails(self.stream)

    @rule(seconds=st.sampled_from([1.0, 4.0, 5.0, 7.0, 21.0, 100.0]))
    def time_passes(self, seconds):
        until = self.now + seconds
        while self.state is not SessionState.ENDED:
            due = self.deadlines()
            first = min(moment for moment, _ in due)
            if first > until:
                break
            causes = {cause for moment, cause in due if moment == first}
            self.stream.clock.advance_to(first)
            if causes == {None}:  # drained: the Close goes out
                self.close()
            else:
                self.ends(*(causes - {None}))
        self.stream.clock.advance_to(until)

    def deadlines(self):
        due = [(self.lifetime, Cause.LIFETIME_OVER)]
        if self.closing_due is not None:
            cause = Cause.CONTAINER_CLOSE_TIMEOUT if self.state is SessionState.CLOSING else None
            due.append((self.closing_due, cause))
        for side, cause in (
            ("client", Cause.CLIENT_STALLED),
            ("container", Cause.CONTAINER_STALLED),
        ):
            if self.stalled_since[side] is not None:
                due.append((self.stalled_since[side] + STALL_TIMEOUT, cause))
        return due

    @precondition(lambda self: self.state is SessionState.ENDED and self.legs_left)
    @rule()
    def a_leg_is_gone(self):
        self.legs_left -= 1
        self.stream.session.leg_closed()

    # What must be so after each.

    @invariant()
    def it_is_as_expected(self):
        session = self.stream.session
        assert session.state is self.state
        assert self.stream.container.sent == self.sent_up
        assert self.stream.client.sent == self.sent_down
        assert self.stream.container.closes == self.closes

    @invariant()
    def who_blocks_pauses_the_other(self):
        if self.state is not SessionState.ENDED:
            assert self.stream.client.paused == self.blocked["container"]
            assert self.stream.container.paused == self.blocked["client"]

    @invariant()
    def it_ends_once_or_not_at_all(self):
        session, client, container = self.stream.session, self.stream.client, self.stream.container
        if self.state is not SessionState.ENDED:
            assert session.ending is None
            assert self.stream.ended == client.endings == container.endings == []
            return
        assert session.ending.cause in self.causes
        assert self.stream.ended == [session]
        assert client.endings == container.endings == [session.ending]
        assert self.stream.clock.armed == []

    @invariant()
    def nothing_follows_the_end(self):
        if self.state is SessionState.ENDED:
            calls = (list(self.stream.client.calls), list(self.stream.container.calls))
            assert all(each[-1] == "finish" for each in calls)
            assert self.calls_at_end in (None, calls)
            self.calls_at_end = calls

    def teardown(self):
        if self.stream.session.state is not SessionState.ENDED:
            self.stream.session.drain()
        for _ in range(self.legs_left):
            self.stream.session.leg_closed()
        asyncio.run(asyncio.wait_for(self.stream.session.closed(), 1))


TestAllPairs = AllPairs.TestCase
TestAllPairs.settings = settings(
    max_examples=300, stateful_step_count=30, deadline=None, derandomize=True
)
