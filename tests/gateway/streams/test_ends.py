"""What the table of ends in ``test_session.py`` does not say: that every end can be said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.streams import ends
from partway.gateway.streams.ends import Cause, ClientFault, Ending
from partway.protocol.limits import MAX_CLOSE_REASON_BYTES
from partway.protocol.parts import InternalStreamFailure, ModelStreamError
from partway.protocol.websocket.close_codes import (
    NORMAL_CODES,
    Close,
    close_for,
    encode_close,
    is_legal,
)
from partway.protocol.websocket.frame_decoder import FrameError

CODES = st.one_of(st.none(), st.sampled_from([c for c in range(1000, 5000) if is_legal(c)]))
CLOSES = CODES.flatmap(
    lambda code: st.builds(Close, st.just(code), st.just("") if code is None else st.text())
)
SECONDS = st.floats(min_value=0.001, max_value=1e9)
FAULTS = st.builds(
    ClientFault,
    st.text(),
    code=st.sampled_from(["InputStreamError", "InvalidSignature"]),
    oversize=st.booleans(),
)

ENDINGS = st.one_of(
    st.builds(ends.container_closed, CLOSES, st.sampled_from(["error", "end"])),
    st.builds(ends.container_answered, CLOSES, input_cut_message=st.booleans()),
    st.just(ends.container_lost()),
    st.builds(
        ends.container_broke_protocol,
        st.builds(FrameError, st.sampled_from([1002, 1007, 1009]), st.text()),
    ),
    st.builds(ends.container_unresponsive, st.integers(min_value=1)),
    st.builds(ends.container_stalled, SECONDS),
    st.builds(ends.client_stalled, SECONDS),
    st.builds(ends.close_timeout, st.just("close_timeout"), SECONDS),
    st.just(ends.gateway_fault()),
    st.just(ends.answer_ended()),
    st.builds(ends.answer_silent, st.text()),
    st.builds(ends.answer_broken, st.text()),
    st.builds(ends.answer_too_long, SECONDS),
    st.builds(ends.lifetime_over, SECONDS),
    st.just(ends.gateway_draining()),
    st.builds(ends.client_gone, st.sampled_from(Cause)),
    st.just(ends.client_finished()),
    st.builds(ends.client_fault, FAULTS),
)


@given(ENDINGS)
def test_every_end_can_be_said(ending: Ending):
    """To the container, and to a client that sees nothing but a Close."""
    if ending.container_close is not None:
        encode_close(ending.container_close)
    if ending.model_close is not None:
        encode_close(ending.model_close)
    if ending.error is not None:
        close = close_for(ending.error)
        assert len(close.reason.encode()) <= MAX_CLOSE_REASON_BYTES
        encode_close(close)


@pytest.mark.clause("1.5-1", "1.5-2")
@given(CLOSES, st.sampled_from(["error", "end"]))
def test_a_containers_close_keeps_its_code_and_reason(close: Close, normal_close: ends.NormalClose):
    ending = ends.container_closed(close, normal_close)
    code = 1005 if close.code is None else close.code
    assert ending.model_close == close
    if code in NORMAL_CODES and normal_close == "end":
        assert ending.error is None
    else:
        assert ending.error.code == str(code)
        assert ending.error.message
        assert ending.error.message == close.reason or not close.reason


@pytest.mark.clause("1.5-8", "1.5-9")
@pytest.mark.parametrize(
    "ending",
    [
        ends.container_unresponsive(5),
        ends.container_stalled(300.0),
        ends.client_stalled(300.0),
        ends.close_timeout("close_timeout", 10.0),
        ends.gateway_fault(),
        ends.lifetime_over(1800.0),
        ends.gateway_draining(),
    ],
    ids=lambda ending: ending.cause,
)
def test_what_the_platform_ends_is_its_failure_and_says_whose(ending: Ending):
    assert isinstance(ending.error, InternalStreamFailure)
    side = ending.cause.value.partition("_")[0]  # container, client, gateway, lifetime
    assert side in ending.error.message
    if ending.container_close is not None:
        assert ending.container_close.code in (1001, 1011)


@pytest.mark.clause("1.5-10")
def test_a_fault_is_named_and_no_byte_of_it_quoted():
    ending = ends.client_fault(ClientFault("secret words", "InvalidSignature"))
    assert ending.error == ModelStreamError("InvalidSignature", "secret words")
    assert "secret" not in ending.container_close.reason
