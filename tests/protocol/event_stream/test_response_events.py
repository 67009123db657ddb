"""A response's chunks as events, read by botocore with the shapes of AWS's own model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.event_stream.response_events import encode_chunk
from partway.protocol.event_stream.writer import encode_error
from partway.protocol.parts import (
    STREAM_BROKEN,
    TIME_EXCEEDED,
    InternalStreamFailure,
    ModelStreamError,
)
from tests import event_factory as raw
from tests.boto_events import BotoEvents, EventStreamError

#: An event of this operation has no header but the encoding's own (clauses 2.3-3, 2.3-4).
HEADERS = (
    raw.string(":message-type", "event")
    + raw.string(":event-type", "PayloadPart")
    + raw.string(":content-type", "application/octet-stream")
)


@pytest.mark.clause("2.3-3")
def test_a_chunk_is_one_event_byte_for_byte():
    for chunk in (b"Hello ", b"World!", b"\0" * 6, b"", b"!", b"Hello "):
        assert encode_chunk(chunk) == raw.message(HEADERS, chunk)


@given(st.lists(st.binary(min_size=1, max_size=60), max_size=8), st.data())
def test_botocore_reads_each_chunk_wherever_the_stream_is_cut(chunks, data):
    whole = b"".join(map(encode_chunk, chunks))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(whole)), max_size=8)))
    pieces = [whole[at:to] for at, to in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert list(BotoEvents(pieces)) == [{"PayloadPart": {"Bytes": chunk}} for chunk in chunks]


@pytest.mark.clause("2.3-5")
@pytest.mark.parametrize(
    ("error", "body"),
    [
        (
            ModelStreamError(TIME_EXCEEDED, "late"),
            b'{"Message":"late","ErrorCode":"ModelInvocationTimeExceeded"}',
        ),
        (
            ModelStreamError(STREAM_BROKEN, "cut"),
            b'{"Message":"cut","ErrorCode":"StreamBroken"}',
        ),
        (InternalStreamFailure("drained"), b'{"Message":"drained"}'),
    ],
)
def test_what_breaks_an_answer_off_is_an_exception_to_botocore(error, body):
    """Its error code is in the bytes; boto3 shows the type and the message, and drops the code."""
    name = type(error).__name__
    encoded = encode_error(error)
    assert encoded == raw.exception(name, body)
    with pytest.raises(EventStreamError) as raised:
        list(BotoEvents([encode_chunk(b"before"), encoded]))
    assert raised.value.response["Error"] == {"Code": name, "Message": error.message}
