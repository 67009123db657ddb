from __future__ import annotations

import itertools
import json
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.protocol.event_stream.part_headers import EventFault
from partway.protocol.event_stream.reader import RequestEvents
from partway.protocol.event_stream.response_events import ResponseEvents
from partway.protocol.event_stream.writer import encode_error, encode_part, wrap
from partway.protocol.limits import (
    ERROR_BODY_BYTES,
    EXCEPTION_EVENT_BYTES,
    MAX_EVENT_HEADERS_BYTES,
    MAX_PART_BYTES,
    signed_event_bytes,
)
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
)
from tests import event_factory as raw
from tests.event_factory import part_headers, signed

LIMIT = 1000

KINDS = list(itertools.product(DataType, CompletionState))
PARTS = st.builds(
    PayloadPart,
    st.binary(max_size=60),
    st.sampled_from(DataType),
    st.sampled_from(CompletionState),
)

# What the Python SDK (aws-sdk-sagemaker-runtime-http2 0.12.0, smithy-aws-event-stream) wrote for
# three calls, signed by "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY" after the signature "00…00", for
# us-east-1 at 2026-01-02T03:04:05.678Z: send("Hello ", UTF8, PARTIAL, p="abc"), send(b"") with no
# other member, close().
SDK_DATE_MS = 1_767_323_045_678
SDK_HELLO = bytes.fromhex(
    "000000f400000043374339de053a64617465080000019b7ca98f2e103a6368756e6b2d7369676e617475726506"
    "0020d9c1ddaac925a5583290dce4cb5634ffbbb8d382236778f92bfc8b3a2acfebd6000000a10000008b520f33"
    "e70d3a6d6573736167652d747970650700056576656e740b3a6576656e742d7479706507000b5061796c6f6164"
    "50617274084461746154797065070004555446380f436f6d706c6574696f6e5374617465070007504152544941"
    "4c01500700036162630d3a636f6e74656e742d747970650700186170706c69636174696f6e2f6f637465742d73"
    "747265616d48656c6c6f20f8640f373df2aaaf"
)
SDK_EMPTY = bytes.fromhex(
    "00000093000000431c519283053a64617465080000019b7ca98f2e103a6368756e6b2d7369676e617475726506"
    "002043d336cf22dcba04067d07fda2e95107be06388bc99206b92a32b2713d734aa800000040000000301b08b7"
    "8c0d3a6d6573736167652d747970650700056576656e740b3a6576656e742d7479706507000b5061796c6f6164"
    "50617274874f79ffbae46b36"
)
SDK_END = bytes.fromhex(
    "0000005300000043f5447a58053a64617465080000019b7ca98f2e103a6368756e6b2d7369676e617475726506"
    "0020f5d172695e411f02195abeee279e5d3bfae049e1cc0dec5b6fabb33ea60781128bee953d"
)
# The same SDK as a server: its response event for ("Hello ", UTF8, PARTIAL).
SDK_RESPONSE = bytes.fromhex(
    "0000009900000083cd8548920d3a6d6573736167652d747970650700056576656e740b3a6576656e742d747970"
    "6507000b5061796c6f616450617274084461746154797065070004555446380f436f6d706c6574696f6e537461"
    "74650700075041525449414c0d3a636f6e74656e742d747970650700186170706c69636174696f6e2f6f637465"
    "742d73747265616d48656c6c6f20e2a6fde7"
)


def genuine(date_ms, signature, payload):
    return None


def read(reader, pieces):
    """What comes out of ``pieces``: the events, and the fault's (message, code, oversize)."""
    events = []
    for piece in pieces:
        reader.feed(piece)
        try:
            while (event := reader.next_event()) is not None:
                events.append(event)
        except EventFault as fault:
            found = (fault.message, fault.code, fault.oversize)
            reader.feed(signed(raw.part(b"after")))
            with pytest.raises(EventFault) as again:
                reader.next_event()
            assert (again.value.message, again.value.code, again.value.oversize) == found
            assert reader.buffered_bytes == 0
            assert not reader.mid_event
            return events, found
    return events, None


def read_request(data, check=genuine, *, limit=LIMIT):
    """What a client's bytes are, whole and cut at every point."""
    whole = read(RequestEvents(limit, check), [data])
    assert read(RequestEvents(limit, check), [bytes([byte]) for byte in data]) == whole
    for cut in range(1, len(data)):
        assert read(RequestEvents(limit, check), [data[:cut], data[cut:]]) == whole, f"cut at {cut}"
    return whole


def fault_of(data, check=genuine, *, limit=LIMIT):
    events, fault = read(RequestEvents(limit, check), [data])
    assert events == []
    assert fault is not None
    return fault


# --- Writing -------------------------------------------------------------------------------------


@pytest.mark.clause("2.3-3", "2.3-4")
@pytest.mark.parametrize(("data_type", "completion"), KINDS)
@pytest.mark.parametrize("payload", [b"", b"Hello ", bytes(640), bytes(70_000)])
def test_a_response_event(payload, data_type, completion):
    event = encode_part(PayloadPart(payload, data_type, completion))
    ((headers, body),) = raw.read(event)
    assert headers == {
        ":message-type": "event",
        ":event-type": "PayloadPart",
        ":content-type": "application/octet-stream",
        "DataType": data_type.value,
        "CompletionState": completion.value,
    }
    assert body == payload


@pytest.mark.clause("2.3-3")
def test_a_response_event_in_bytes():
    block = b"".join(
        raw.string(*pair)
        for pair in {
            ":message-type": "event",
            ":event-type": "PayloadPart",
            ":content-type": "application/octet-stream",
            "DataType": "UTF8",
            "CompletionState": "PARTIAL",
        }.items()
    )
    event = encode_part(PayloadPart(b"Hi", DataType.UTF8, CompletionState.PARTIAL))
    assert event == raw.message(block, b"Hi")


@pytest.mark.clause("2.3-1")
@pytest.mark.parametrize("inner", [b"", raw.part(b"Hi")])
def test_wrap(inner):
    assert wrap(inner, raw.DATE_MS, raw.SIGNATURE) == signed(inner)
    assert raw.read(wrap(inner, -1, raw.SIGNATURE)) == [
        ({":date": -1, ":chunk-signature": raw.SIGNATURE}, inner)
    ]


@pytest.mark.parametrize("size", [0, 31, 33])
def test_wrap_wants_a_whole_signature(size):
    with pytest.raises(ValueError, match=f"a signature must have 32 bytes, not {size}"):
        wrap(b"", 0, bytes(size))


@pytest.mark.clause("2.3-5")
@pytest.mark.parametrize(
    ("error", "kind", "body"),
    [
        (ModelStreamError("4001", "no"), "ModelStreamError",
         b'{"Message":"no","ErrorCode":"4001"}'),
        (ModelStreamError("1005", ""), "ModelStreamError", b'{"Message":"","ErrorCode":"1005"}'),
        (InternalStreamFailure("stalled"), "InternalStreamFailure", b'{"Message":"stalled"}'),
        (InternalStreamFailure('"\\\0\n'), "InternalStreamFailure",
         rb'{"Message":"\"\\\u0000\n"}'),
        (InternalStreamFailure("grün €"), "InternalStreamFailure",
         '{"Message":"grün €"}'.encode()),
    ],
)  # fmt: skip
def test_an_exception(error, kind, body):
    assert encode_error(error) == raw.exception(kind, body)


@pytest.mark.clause("2.3-5", "2.3-6")
@pytest.mark.parametrize("letter", ["x", "ü", "€", "😀", '"', "\0", "\ud800"])
@pytest.mark.parametrize("make", [lambda text: ModelStreamError("InputStreamError", text),
                                  InternalStreamFailure])  # fmt: skip
def test_an_exception_fits_into_what_is_held_back(make, letter):
    event = encode_error(make(letter * 5000))
    assert EXCEPTION_EVENT_BYTES - 12 < len(event) <= EXCEPTION_EVENT_BYTES == 1024
    ((_, body),) = raw.read(event)
    message = json.loads(body)["Message"]
    shown = "?" if letter == "\ud800" else letter
    assert message == shown * (len(message) - 1) + "…"


@pytest.mark.clause("2.3-6")
@given(
    text=st.text(min_size=100, max_size=1200)
    | st.text(st.characters(exclude_categories=())).map(lambda text: text * 40),
    code=st.from_regex(r"[0-9]{4}|InputStreamError|InvalidSignature", fullmatch=True),
)
def test_any_message_fits(text, code):
    for error in (ModelStreamError(code, text), InternalStreamFailure(text)):
        event = encode_error(error)
        assert len(event) <= 1024
        ((_, body),) = raw.read(event)
        found = json.loads(body)["Message"]
        expected = text.encode(errors="replace").decode()
        assert found == expected or (found[-1] == "…" and expected.startswith(found[:-1]))


@pytest.mark.clause("2.3-6")
def test_a_message_is_clipped_only_if_it_has_to_be():
    kept = "x" * 880
    assert json.loads(raw.read(encode_error(InternalStreamFailure(kept)))[0].payload) == {
        "Message": kept
    }


# --- Requests ------------------------------------------------------------------------------------


@pytest.mark.clause("2.3-1", "2.3-2")
def test_what_the_python_sdk_sends():
    checked = []

    def check(date_ms, signature, payload):
        checked.append((date_ms, signature, payload))

    reader = RequestEvents(LIMIT, check)
    assert read(reader, [SDK_HELLO + SDK_EMPTY + SDK_END]) == (
        [
            PayloadPart(b"Hello ", DataType.UTF8, CompletionState.PARTIAL),
            PayloadPart(b"", DataType.BINARY, CompletionState.COMPLETE),
            InputEnd(),
        ],
        None,
    )
    assert [payload for *_, payload in checked] == [SDK_HELLO[79:-4], SDK_EMPTY[79:-4], b""]
    assert {date_ms for date_ms, *_ in checked} == {SDK_DATE_MS}
    assert [signature[:2].hex() for _, signature, _ in checked] == ["d9c1", "43d3", "f5d1"]


@pytest.mark.clause("1.2-2", "2.3-1")
@pytest.mark.parametrize(("data_type", "completion"), KINDS)
def test_a_request_event_at_every_split(data_type, completion):
    inner = raw.part(b"Hello ", data_type.value, completion.value)
    expected = [PayloadPart(b"Hello ", data_type, completion)]
    assert read_request(signed(inner)) == (expected, None)
    assert read_request(inner, None) == (expected, None)


@pytest.mark.clause("1.2-2", "2.3-1")
def test_absent_members_mean_their_defaults():
    for absent in ({"data_type": None}, {"completion": None}, {"content_type": None}):
        events, _ = read_request(signed(raw.part(b"x", **absent)))
        assert events == [PayloadPart(b"x", DataType.BINARY, CompletionState.COMPLETE)]


@pytest.mark.clause("2.3-1")
def test_headers_come_in_any_order():
    headers = [
        raw.string(":message-type", "event"),
        raw.string(":event-type", "PayloadPart"),
        raw.string("DataType", "UTF8"),
        raw.string("CompletionState", "PARTIAL"),
        raw.string("P", "padding"),
    ]
    expected = [PayloadPart(b"x", DataType.UTF8, CompletionState.PARTIAL)]
    for order in itertools.permutations(headers):
        inner = raw.message(b"".join(order), b"x")
        assert read(RequestEvents(LIMIT, genuine), [signed(inner)]) == (expected, None)
    other_way = raw.message(
        raw.header(":chunk-signature", raw.BYTES, raw.SIGNATURE)
        + raw.header(":date", raw.TIMESTAMP, 5),
        inner,
    )
    seen = []
    assert read_request(other_way, lambda *args: seen.append(args)) == (expected, None)
    assert set(seen) == {(5, raw.SIGNATURE, inner)}


@pytest.mark.clause("1.2-2", "2.3-1")
@pytest.mark.parametrize("padding", ["", "abc", "x" * 30_000, "ü"])
def test_padding_is_ignored(padding):
    inner = raw.part(b"x", more=raw.string("P", padding))
    assert read(RequestEvents(LIMIT, genuine), [signed(inner)]) == ([PayloadPart(b"x")], None)


@pytest.mark.clause("2.3-1")
def test_headers_of_the_sdks_own_are_let_by():
    more = raw.string(":x-ray", "1") + raw.header(":n", raw.INT, 3)
    assert read_request(signed(raw.part(b"x", more=more))) == ([PayloadPart(b"x")], None)
    odd = part_headers(content_type=None) + raw.header(":content-type", raw.INT, 3)
    assert read_request(signed(raw.message(odd, b"x"))) == ([PayloadPart(b"x")], None)


@pytest.mark.clause("2.3-2")
def test_an_empty_signed_message_ends_the_input():
    assert read_request(signed(b"")) == ([InputEnd()], None)
    assert read_request(signed(b""), None) == ([InputEnd()], None)
    assert read_request(signed(b"") + signed(raw.part(b"x"))) == (
        [InputEnd(), PayloadPart(b"x")],
        None,
    )


@pytest.mark.clause("2.3-1")
def test_with_authentication_off_events_come_either_way():
    """Also of one stream, and with a header block that came the other way before."""
    stream = b"".join(
        [signed(raw.part(b"1")), raw.part(b"2"), signed(raw.part(b"3")), signed(b""), raw.part()]
    )
    events, fault = read(RequestEvents(LIMIT, None), [stream])
    assert fault is None
    assert events == [*map(PayloadPart, [b"1", b"2", b"3"]), InputEnd(), PayloadPart(b"")]


@pytest.mark.clause("1.5-10", "2.3-1")
def test_with_authentication_on_nothing_comes_bare():
    """Nor does a header block that was inside a genuine event make one."""
    events, fault = read(RequestEvents(LIMIT, genuine), [signed(raw.part(b"1")) + raw.part(b"2")])
    assert events == [PayloadPart(b"1")]
    assert fault is not None
    assert fault[1] == "InvalidSignature"


@pytest.mark.clause("1.5-10")
def test_a_refused_signature_is_told_and_ends_it():
    calls = []

    def check(date_ms, signature, payload):
        calls.append(payload)
        return "the event is not signed by this key" if len(calls) == 2 else None

    stream = signed(raw.part(b"1")) + signed(b"nonsense") + signed(raw.part(b"3"))
    reader = RequestEvents(LIMIT, check)
    assert read(reader, [stream]) == (
        [PayloadPart(b"1")],
        ("the event is not signed by this key", "InvalidSignature", False),
    )
    assert calls == [raw.part(b"1"), b"nonsense"]


@pytest.mark.clause("1.5-10")
@pytest.mark.parametrize("inner", [b"", b"nonsense", raw.part(b"x", "NOPE"), raw.part(bytes(1001))])
def test_the_signature_is_looked_at_before_the_inner_message(inner):
    fault = fault_of(signed(inner), lambda *args: "no")
    assert fault == ("no", "InvalidSignature", False)


SIGNING = "a signed event must have a :date of type 8 and a :chunk-signature of type 6 and 32 bytes"
ALONE = "a signed event must have no headers but :date and :chunk-signature"
DATE = raw.header(":date", raw.TIMESTAMP, raw.DATE_MS)
SIGNATURE = raw.header(":chunk-signature", raw.BYTES, raw.SIGNATURE)


@pytest.mark.clause("1.5-10", "2.3-1")
@pytest.mark.parametrize("check", [genuine, None], ids=["auth", "no auth"])
@pytest.mark.parametrize(
    ("block", "words"),
    [
        (SIGNATURE, SIGNING),
        (raw.header(":date", raw.LONG, 5) + SIGNATURE, SIGNING),
        (raw.string(":date", "20260102T030405Z") + SIGNATURE, SIGNING),
        (DATE + raw.header(":chunk-signature", raw.BYTES, bytes(31)), SIGNING),
        (DATE + raw.header(":chunk-signature", raw.STRING, bytes(32)), SIGNING),
        (raw.header(":datf", raw.TIMESTAMP, 5) + SIGNATURE, SIGNING),
        (DATE + raw.header(":chunk-signaturf", raw.BYTES, bytes(32))
         + raw.header(":chunk-signature", raw.TRUE), ALONE),
        (DATE + SIGNATURE + raw.string(":x", ""), ALONE),
        (DATE + SIGNATURE + raw.string("CompletionState", "PARTIAL"), ALONE),
    ],
)  # fmt: skip
def test_signed_messages_that_are_none(block, words, check):
    message, code, oversize = fault_of(raw.message(block, raw.part()), check)
    assert message == words
    assert code == ("InvalidSignature" if words is SIGNING else "InputStreamError")
    assert not oversize


@pytest.mark.clause("2.3-1")
@pytest.mark.parametrize("block", [b"", DATE, part_headers(message_type=None),
                                   part_headers(more=SIGNATURE)])  # fmt: skip
def test_neither_bare_nor_signed(block):
    words = (
        f"the event has {'both' if SIGNATURE in block else 'neither'} of the headers "
        ":message-type and :chunk-signature; it must have exactly one of them"
    )
    assert fault_of(raw.message(block), None) == (words, "InputStreamError", False)
    assert fault_of(raw.message(block), genuine)[1] == "InvalidSignature"


@pytest.mark.clause("1.5-10", "2.3-1", "2.3-4")
@pytest.mark.parametrize(
    ("inner", "words"),
    [
        (raw.part(data_type="text"), "DataType must be one of BINARY, UTF8, exactly as written"),
        (raw.part(data_type="utf8"), "DataType must be one of BINARY, UTF8, exactly as written"),
        (raw.part(data_type=""), "DataType must be one of BINARY, UTF8, exactly as written"),
        (raw.part(completion="complete"),
         "CompletionState must be one of COMPLETE, PARTIAL, exactly as written"),
        (raw.message(part_headers(data_type=None) + raw.header("DataType", raw.BYTES, b"UTF8")),
         "DataType must be a string"),
        (raw.message(part_headers(completion=None) + raw.header("CompletionState", raw.TRUE)),
         "CompletionState must be a string"),
        (raw.part(more=raw.header("P", raw.INT, 1)), "P must be a string"),
        (raw.part(more=raw.string("Completionstate", "PARTIAL")),
         "the headers of a part must be among [CompletionState, DataType, P]"),
        (raw.part(message_type="exception"), ":message-type must be event in a client's message"),
        (raw.part(message_type="error"), ":message-type must be event in a client's message"),
        (raw.part(event_type="initial-request"), ":event-type must be PayloadPart"),
        (raw.part(event_type=None), ":event-type must be PayloadPart"),
        (raw.message(part_headers(event_type=None) + raw.header(":event-type", raw.TRUE)),
         ":event-type must be a string"),
        (raw.message(part_headers(message_type=None) + raw.header(":message-type", raw.TRUE)),
         ":message-type must be a string"),
        (raw.part(more=raw.string("DataType", "UTF8")),
         "a header appears twice, at byte 134 of the headers"),
        (raw.message(part_headers(), crc=0), "the message's checksum is wrong"),
        (raw.message(part_headers(), prelude_crc=0), "the prelude's checksum is wrong"),
    ],
)  # fmt: skip
def test_inner_messages_that_are_none(inner, words):
    expected = (words, "InputStreamError", False)
    assert fault_of(signed(inner)) == expected
    assert fault_of(signed(inner), None) == expected
    assert fault_of(inner, None) == expected


@pytest.mark.clause("2.3-1")
def test_the_payload_is_exactly_one_message():
    one = raw.part(b"x")
    for payload, words in [
        (
            one + one,
            f"bytes follow the message: its prelude says {len(one)} bytes, {2 * len(one)} came",
        ),
        (
            one + b"\0",
            f"bytes follow the message: its prelude says {len(one)} bytes, {len(one) + 1} came",
        ),
        (one[:-1], f"the message is cut: its prelude says {len(one)} bytes, {len(one) - 1} came"),
        (one[:15], "15 bytes came; a message must have at least 16"),
        (b"\0", "1 bytes came; a message must have at least 16"),
        (signed(one), ":message-type must be event in a client's message"),
        (signed(b""), ":message-type must be event in a client's message"),
        (raw.message(), ":message-type must be event in a client's message"),
    ]:
        message, code, oversize = fault_of(signed(payload))
        assert message.startswith(words)
        assert (code, oversize) == ("InputStreamError", False)


@pytest.mark.clause("1.5-10")
def test_the_largest_part_passes_and_the_next_does_not():
    fits, over = raw.part(bytes(LIMIT)), raw.part(bytes(LIMIT + 1))
    fault = (
        f"a part has {LIMIT + 1} bytes; it must have at most {LIMIT}",
        "InputStreamError",
        True,
    )
    for check in (genuine, None):
        assert read(RequestEvents(LIMIT, check), [signed(fits)])[0] == [PayloadPart(bytes(LIMIT))]
        assert fault_of(signed(over), check) == fault
    assert read(RequestEvents(LIMIT, None), [fits])[0] == [PayloadPart(bytes(LIMIT))]
    assert fault_of(over, None) == fault


def test_the_largest_part_passes_with_the_largest_headers():
    padding = b"".join(raw.header(f":{n}", raw.BYTES, bytes(30_000)) for n in range(4))
    left = MAX_EVENT_HEADERS_BYTES - len(part_headers(more=padding)) - len(raw.string("P", ""))
    inner = raw.part(bytes(LIMIT), more=padding + raw.string("P", "x" * left))
    assert len(inner) == signed_event_bytes(LIMIT)
    assert read(RequestEvents(LIMIT, genuine), [signed(inner)])[0] == [PayloadPart(bytes(LIMIT))]
    fault = fault_of(signed(inner + b"\0"))
    assert fault[1:] == ("InputStreamError", True)


@pytest.mark.clause("1.5-10")
def test_an_oversize_event_is_refused_from_its_prelude():
    reader = RequestEvents(MAX_PART_BYTES, genuine)
    tracemalloc.start()
    announced = signed_event_bytes(MAX_PART_BYTES) + 1
    prelude = raw.message(total=announced + 67 + 16, headers_length=67)[:12]
    events, fault = read(reader, [prelude])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events == []
    assert fault == (
        f"the payload has {announced} bytes; it must have at most {announced - 1}",
        "InputStreamError",
        True,
    )
    assert peak < 50_000


def test_what_a_reader_remembers_is_bounded():
    """A peer that pads each event differently fills nothing."""
    reader = RequestEvents(LIMIT, genuine)
    for number in range(500):
        more = raw.string("P", f"{number}" * (200 if number < 10 else 1))
        reader.feed(signed(raw.part(b"x", "UTF8", more=more)))
        assert reader.next_event() == PayloadPart(b"x", DataType.UTF8)
    assert len(reader._kinds) <= 8
    assert all(len(block) <= 256 for block in reader._kinds)
    for data_type, completion in KINDS:
        reader.feed(signed(raw.part(b"x", data_type.value, completion.value)))
        assert reader.next_event() == PayloadPart(b"x", data_type, completion)


@pytest.mark.clause("2.3-2")
@pytest.mark.parametrize("check", [genuine, None], ids=["auth", "no auth"])
def test_an_end_inside_an_event_is_a_cut(check):
    event = signed(raw.part(b"Hello "))
    for taken in (False, True):
        for size in range(len(event)):
            reader = RequestEvents(LIMIT, check)
            reader.feed(event + event[:size])
            if taken:
                assert reader.next_event() is not None
            assert reader.mid_event is (size > 0)
            assert reader.buffered_bytes == size + (0 if taken else len(event))


def test_nothing_of_a_fault_keeps_payloads_alive():
    reader = RequestEvents(MAX_PART_BYTES, genuine)
    reader.feed(signed(raw.part(bytes(MAX_PART_BYTES), "NOPE")))
    tracemalloc.start()
    with pytest.raises(EventFault):
        reader.next_event()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100_000
    assert sys.getsizeof(reader._decoder._buffer) < 1000


def test_faults_do_not_show_the_content():
    secret = "wJalrXUtnFEMI"
    for inner in (
        raw.part(secret.encode(), secret),
        raw.part(more=raw.string(secret, secret)),
        raw.part(event_type=secret),
        secret.encode(),
    ):
        reader = RequestEvents(LIMIT, genuine)
        reader.feed(signed(inner))
        with pytest.raises(EventFault) as caught:
            reader.next_event()
        assert secret not in repr(caught.value)


# --- Responses -----------------------------------------------------------------------------------


def read_response(data):
    whole = read(ResponseEvents(LIMIT), [data])
    for cut in range(1, len(data)):
        assert read(ResponseEvents(LIMIT), [data[:cut], data[cut:]]) == whole
    return whole


@pytest.mark.clause("2.3-3", "2.3-5")
def test_a_client_reads_events():
    hello = PayloadPart(b"Hello ", DataType.UTF8, CompletionState.PARTIAL)
    assert read_response(SDK_RESPONSE) == ([hello], None)
    assert read_response(raw.exception("ModelStreamError", b'{"ErrorCode":"1","Message":"x"}')) == (
        [ModelStreamError("1", "x")], None,
    )  # fmt: skip
    assert read_response(raw.exception("ModelStreamError", b"{}")) == (
        [ModelStreamError("", "")], None,
    )  # fmt: skip
    assert read_response(raw.exception("InternalStreamFailure", b'{"Message":"\\u00fc"}')) == (
        [InternalStreamFailure("ü")], None,
    )  # fmt: skip


@pytest.mark.clause("2.3-4", "2.3-5")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (signed(raw.part()), ":message-type must be event or exception in a response"),
        (raw.message(), ":message-type must be event or exception in a response"),
        (raw.part(message_type="error"), ":message-type must be event or exception in a response"),
        (raw.part(event_type="initial-response"), ":event-type must be PayloadPart"),
        (raw.part(data_type="x"), "DataType must be one of BINARY, UTF8, exactly as written"),
        (raw.part(more=raw.string("x", "")), "the headers of a part must be among"),
        (
            raw.exception("ModelError", b"{}"),
            ":exception-type must be ModelStreamError or Internal",
        ),
        (
            raw.message(raw.string(":message-type", "exception"), b"{}"),
            ":exception-type must be ModelStreamError or Internal",
        ),
        (raw.exception("ModelStreamError", b""), "the body of an exception must be JSON"),
        (raw.exception("ModelStreamError", b"\xff"), "the body of an exception must be JSON"),
        (raw.exception("ModelStreamError", b"[" * 16_000), "the body of an exception must be JSON"),
        (
            raw.exception("ModelStreamError", b"[]"),
            "the body of an exception must be a JSON object",
        ),
        (raw.exception("ModelStreamError", b'{"Message":1}'), "Message and ErrorCode of an"),
        (raw.exception("ModelStreamError", b'{"ErrorCode":1}'), "Message and ErrorCode of an"),
        (raw.message(part_headers(), crc=0), "the message's checksum is wrong"),
    ],
)
def test_responses_that_are_none(data, words):
    events, fault = read(ResponseEvents(LIMIT), [data])
    assert events == []
    assert fault is not None
    assert fault[0].startswith(words)
    assert fault[1:] == ("InputStreamError", False)


def test_responses_that_are_too_large():
    too_long = b'{"Message":"' + b"x" * ERROR_BODY_BYTES + b'"}'
    for data in (
        raw.part(bytes(LIMIT + 1)),
        raw.exception("ModelStreamError", too_long),
        raw.message(total=1 << 30),
    ):
        events, fault = read(ResponseEvents(LIMIT), [data])
        assert events == []
        assert fault is not None
        assert fault[2] is True
    fault = read(ResponseEvents(MAX_PART_BYTES), [raw.exception("ModelStreamError", too_long)])[1]
    assert fault == (
        "an exception has 16398 bytes; it must have at most 16384",
        "InputStreamError",
        True,
    )
    longest = b'{"Message":"' + b"x" * (ERROR_BODY_BYTES - 14) + b'"}'
    events, _ = read(ResponseEvents(10), [raw.exception("InternalStreamFailure", longest)])
    assert len(events) == 1


@pytest.mark.clause("2.3-3", "2.3-5")
@given(parts=st.lists(PARTS, max_size=4), cut=st.integers(0, 400))
def test_what_is_written_is_read(parts, cut):
    ends = [ModelStreamError("1011", "boom"), InternalStreamFailure("stalled")]
    stream = b"".join([*map(encode_part, parts), *map(encode_error, ends)])
    pieces = [stream[:cut], stream[cut:]]
    assert read(ResponseEvents(LIMIT), pieces) == ([*parts, *ends], None)
    sent = [wrap(encode_part(part), raw.DATE_MS, raw.SIGNATURE) for part in parts]
    stream = b"".join([*sent, wrap(b"", raw.DATE_MS, raw.SIGNATURE)])
    pieces = [stream[:cut], stream[cut:]]
    assert read(RequestEvents(LIMIT, genuine), pieces) == ([*parts, InputEnd()], None)


# --- Any input -----------------------------------------------------------------------------------

READERS = pytest.mark.parametrize(
    "reader",
    [
        lambda: RequestEvents(LIMIT, genuine),
        lambda: RequestEvents(LIMIT, None),
        lambda: ResponseEvents(LIMIT),
    ],
    ids=["auth", "no auth", "response"],
)


@READERS
@given(pieces=st.lists(st.binary(max_size=64), max_size=5))
def test_any_bytes_are_events_or_a_fault(reader, pieces):
    read(reader(), pieces)


HEADERS = st.lists(
    st.sampled_from(
        [
            raw.string(":message-type", "event"), raw.string(":message-type", "exception"),
            raw.string(":event-type", "PayloadPart"), raw.header(":event-type", raw.INT, 1),
            raw.string(":exception-type", "ModelStreamError"), raw.string("DataType", "UTF8"),
            raw.string("DataType", "x"), raw.string("CompletionState", "PARTIAL"),
            raw.header("CompletionState", raw.UUID, bytes(16)), raw.string("P", "x"),
            raw.string("p", "x"), DATE, SIGNATURE, raw.header(":date", raw.LONG, -1), b"\x01",
        ]
    ),
    max_size=6,
).map(b"".join)  # fmt: skip
LEAVES = st.binary(max_size=8) | st.sampled_from([b"{}", b'{"Message":"x"}', b"[", bytes(1001)])
TREES = st.recursive(LEAVES, lambda payloads: st.builds(raw.message, HEADERS, payloads))


@READERS
@settings(max_examples=150)
@given(stream=st.lists(TREES, max_size=3).map(b"".join))
def test_any_messages_are_events_or_a_fault(reader, stream):
    read(reader(), [stream])


@READERS
@settings(max_examples=100)
@given(
    parts=st.lists(PARTS, min_size=1, max_size=2),
    at=st.integers(0, 10_000),
    byte=st.integers(1, 255),
    bare=st.booleans(),
)
def test_no_flipped_bits_pass(reader, parts, at, byte, bare):
    """Every byte of a message is under a checksum."""
    inner = [raw.part(part.payload, part.data_type.value, part.completion.value) for part in parts]
    stream = bytearray(b"".join(inner if bare else map(signed, inner)))
    stream[at % len(stream)] ^= byte
    events, fault = read(reader(), [bytes(stream)])
    assert fault is not None
    assert len(events) < len(parts)
