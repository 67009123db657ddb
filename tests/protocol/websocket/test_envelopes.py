from __future__ import annotations

import base64
import contextlib
import json
import re
import struct

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.protocol.limits import MAX_ENVELOPE_FRAGMENTS
from partway.protocol.parts import (
    CompletionState,
    DataType,
    InputEnd,
    InternalStreamFailure,
    ModelStreamError,
    PayloadPart,
)
from partway.protocol.websocket import envelopes
from partway.protocol.websocket.envelopes import (
    EnvelopeError,
    JsonEnvelope,
    MessageAssembler,
    MessageTooBig,
    MsgpackEnvelope,
)

BOTH = pytest.mark.parametrize("envelope", [MsgpackEnvelope, JsonEnvelope])

EVENTS = (
    st.builds(PayloadPart, st.binary(), st.sampled_from(DataType), st.sampled_from(CompletionState))
    | st.just(InputEnd())
    | st.builds(ModelStreamError, st.text(), st.text())
    | st.builds(InternalStreamFailure, st.text())
)


def pack(envelope, value):
    """``value`` as ``envelope``'s message, made without it; bytes stand for a ``Bytes`` member."""
    if envelope is MsgpackEnvelope:
        return msgpack.packb(value)
    return json.dumps(value, default=lambda raw: base64.b64encode(raw).decode()).encode()


@pytest.mark.clause("3-1")
def test_opcodes():
    """msgpack goes in binary messages, JSON in text."""
    assert MsgpackEnvelope.text is False
    assert JsonEnvelope.text is True


@pytest.mark.clause("3-1")
@pytest.mark.parametrize(
    ("event", "json_text", "members"),
    [
        (
            PayloadPart(b"Hello ", DataType.UTF8, CompletionState.PARTIAL),
            {"PayloadPart": {"Bytes": "SGVsbG8g", "DataType": "UTF8",
                             "CompletionState": "PARTIAL"}},
            {"PayloadPart": {"Bytes": b"Hello ", "DataType": "UTF8",
                             "CompletionState": "PARTIAL"}},
        ),
        (
            PayloadPart(b"\x00\xff"),
            {"PayloadPart": {"Bytes": "AP8=", "DataType": "BINARY",
                             "CompletionState": "COMPLETE"}},
            {"PayloadPart": {"Bytes": b"\x00\xff", "DataType": "BINARY",
                             "CompletionState": "COMPLETE"}},
        ),
        (InputEnd(), {"InputEnd": {}}, {"InputEnd": {}}),
        (
            ModelStreamError("1011", "boom"),
            {"ModelStreamError": {"ErrorCode": "1011", "Message": "boom"}},
            {"ModelStreamError": {"ErrorCode": "1011", "Message": "boom"}},
        ),
        (
            InternalStreamFailure("stalled"),
            {"InternalStreamFailure": {"Message": "stalled"}},
            {"InternalStreamFailure": {"Message": "stalled"}},
        ),
    ],
)  # fmt: skip
def test_what_is_written(event, json_text, members):
    assert json.loads(JsonEnvelope.encode(event)) == json_text
    assert msgpack.unpackb(MsgpackEnvelope.encode(event)) == members


@pytest.mark.clause("3-1")
def test_exact_msgpack_bytes():
    assert MsgpackEnvelope.encode(InputEnd()) == b"\x81\xa8InputEnd\x80"
    assert MsgpackEnvelope.encode(PayloadPart(b"hi", DataType.UTF8)) == (
        b"\x81\xabPayloadPart\x83\xa5Bytes\xc4\x02hi\xa8DataType\xa4UTF8"
        b"\xafCompletionState\xa8COMPLETE"
    )


@pytest.mark.clause("1.2-2")
@BOTH
@pytest.mark.parametrize(
    "event",
    [PayloadPart(b"x", data_type, state) for data_type in DataType for state in CompletionState],
)
def test_responses_carry_no_padding(envelope, event):
    assert b'"P"' not in envelope.encode(event)
    assert b"\xa1P" not in envelope.encode(event)


@pytest.mark.clause("3-1")
@BOTH
@given(event=EVENTS)
@example(event=PayloadPart(b"\x00" * 70_000))
def test_there_and_back(envelope, event):
    assert envelope.decode(envelope.encode(event)) == event


@pytest.mark.clause("1.2-2")
@BOTH
@pytest.mark.parametrize(
    ("members", "part"),
    [
        ({}, PayloadPart(b"")),
        ({"Bytes": b"x"}, PayloadPart(b"x")),
        ({"Bytes": b"x", "DataType": "UTF8"}, PayloadPart(b"x", DataType.UTF8)),
        ({"Bytes": b"x", "DataType": "BINARY"}, PayloadPart(b"x")),
        (
            {"Bytes": b"x", "CompletionState": "PARTIAL"},
            PayloadPart(b"x", completion=CompletionState.PARTIAL),
        ),
        ({"Bytes": b"x", "CompletionState": "COMPLETE"}, PayloadPart(b"x")),
        ({"Bytes": b"x", "P": "abcdefgh"}, PayloadPart(b"x")),
        ({"Bytes": b"x", "P": None}, PayloadPart(b"x")),
        ({"DataType": "UTF8"}, PayloadPart(b"", DataType.UTF8)),
    ],
)
def test_absent_members_and_padding(envelope, members, part):
    assert envelope.decode(pack(envelope, {"PayloadPart": members})) == part


SHAPE = "an event must be a map with one entry: its name and its members"
MEMBERS = "the value of an event must be a map of its members"
PART_MEMBERS = "unknown member; PayloadPart may only have [Bytes, CompletionState, DataType, P]"
NO_NAME = "the message is not JSON: Expecting property name enclosed in double quotes"
DATA_TYPE = "DataType must be one of BINARY, UTF8, exactly as written"
COMPLETION = "CompletionState must be one of COMPLETE, PARTIAL, exactly as written"


@pytest.mark.clause("3-1", "4-7")
@BOTH
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, SHAPE), (1, SHAPE), ("PayloadPart", SHAPE), ([], SHAPE), ([{}], SHAPE),
        ({}, SHAPE),
        ({"PayloadPart": {}, "InputEnd": {}}, SHAPE),
        ({"PayloadPart": None}, MEMBERS), ({"PayloadPart": []}, MEMBERS),
        ({"InputEnd": None}, MEMBERS), ({"InputEnd": "yes"}, MEMBERS),
        ({"payloadPart": {}}, "unknown event; an event must be PayloadPart or InputEnd"),
        ({"": {}}, "unknown event; an event must be PayloadPart or InputEnd"),
        ({"PayloadPart": {"Byte": b""}},
         PART_MEMBERS),
        ({"PayloadPart": {"Bytes": b"", "completionState": "PARTIAL"}},
         PART_MEMBERS),
        ({"InputEnd": {"Bytes": b""}}, "unknown member; InputEnd may only have []"),
        ({"PayloadPart": {"DataType": "utf8"}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": "UTF-8"}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": ""}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": None}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": ["UTF8"]}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": {}}}, DATA_TYPE),
        ({"PayloadPart": {"DataType": 1}}, DATA_TYPE),
        ({"PayloadPart": {"CompletionState": "partial"}}, COMPLETION),
        ({"PayloadPart": {"CompletionState": "Complete"}}, COMPLETION),
        ({"PayloadPart": {"CompletionState": True}}, COMPLETION),
        ({"PayloadPart": {"CompletionState": []}}, COMPLETION),
        ({"ModelStreamError": {"ErrorCode": 1011}}, "ErrorCode must be a string"),
        ({"ModelStreamError": {"Message": None}}, "Message must be a string"),
        ({"InternalStreamFailure": {"Message": 1}}, "Message must be a string"),
    ],
)  # fmt: skip
def test_refusals_of_both(envelope, value, reason):
    with pytest.raises(EnvelopeError) as refused:
        envelope.decode(pack(envelope, value))
    if envelope is MsgpackEnvelope and not is_shallow(value):
        # Its parser is told that no event holds an array or a third map.
        assert str(refused.value) in {
            "the message is not msgpack: ValueError",
            "the message has more maps than any event",
        }
    else:
        assert str(refused.value) == reason


def is_shallow(value: object) -> bool:
    """Whether a value is within the bounds of an event, if not one: two maps, nothing in arrays."""
    text = json.dumps(value, default=repr)
    return text.count("{") <= 2 and not re.search(r"\[[^\]]", text)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "the message is not msgpack: "),
        (b"\xc1", "the message is not msgpack: FormatError"),
        (b"\x81", "the message is not msgpack: "),
        (b"\x81\xa8InputEnd\x80\x00", "the message is not msgpack: ExtraData"),
        (b"\x81\xa8InputEn", "the message is not msgpack: "),
        (b"\x81\xa2\xff\xfe\x80", "the message is not msgpack: UnicodeDecodeError"),
        (b"\x81\x01\x80", "the message is not msgpack: "),  # a number for a name
        (b"\xdd\xff\xff\xff\xff", "the message is not msgpack: "),  # an array of 2^32 - 1
        (b"\xdf\xff\xff\xff\xff", "the message is not msgpack: "),
        (b"\xc6\xff\xff\xff\xff", "the message is not msgpack: "),
        (b"\xdb\xff\xff\xff\xffx", "the message is not msgpack: "),
        (b"\x91" * 10_000, "the message is not msgpack: "),
        (b"\x81\xa1a" * 10_000, "the message is not msgpack: "),
        (b"\xd4\x05\x00", "the message is not msgpack: "),  # an extension type
        (b"\xd6\xff\x00\x00\x00\x00", "the message is not msgpack: "),  # a timestamp
        (b"\x81\xa1x\xdd\x00\x10\x00\x00" + b"\x90" * (1 << 20), "the message is not msgpack: "),
        (
            b"\xc7\x03\xff\x00\x00\x00",
            "the message is not msgpack: ",
        ),  # a timestamp of no valid length
        (b"\x81\xabPayloadPart\x81\xa5Bytes\xa2hi", "Bytes must be msgpack bin, not str"),
        (b"\x81\xabPayloadPart\x81\xa5Bytes\xc0", "Bytes must be msgpack bin, not str"),
        (b"\x81\xabPayloadPart\x81\xa5Bytes\x90", "Bytes must be msgpack bin, not str"),
        (b"\x82\xa8InputEnd\x80\xa8InputEnd\x80", "the message has more maps than any event"),
        (b"\x82\xa1x\xc0\xa1x\xc0", "a name appears twice in one map"),
        (b"\x81\xa1x" + b"\x81\xa1x" * 2 + b"\xc0", "the message has more maps than any event"),
        (b"\x81\xc4\x0bPayloadPart\x80", "unknown event"),  # its name in bin
        (b"\x81\xabPayloadPart\x81\xc4\x05Bytes\xc4\x00", "unknown member; PayloadPart may"),
    ],
)
def test_refusals_of_msgpack(message, reason):
    with pytest.raises(EnvelopeError) as refused:
        MsgpackEnvelope.decode(message)
    assert str(refused.value).startswith(reason)


def json_part(text):
    return b'{"PayloadPart":{"Bytes":' + text + b"}}"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "the message is not JSON: Expecting value at character 0"),
        (
            b"{",
            f"{NO_NAME} at character 1",
        ),
        (b'\xef\xbb\xbf{"InputEnd":{}}', "the message is not JSON: Unexpected UTF-8 BOM"),
        (b'{"InputEnd":{}}{}', "the message is not JSON: Extra data at character 15"),
        (b'{"InputEnd":{}', "the message is not JSON: "),
        (b'"\xff"', "the message must be UTF-8"),
        (b'{"\xed\xa0\x80":{}}', "the message must be UTF-8"),
        ('{"InputEnd":{}}'.encode("utf-16"), "the message must be UTF-8"),
        (b"[" * 100_000, "the message has more members than any event"),
        (b'{"x":[' + b"[]," * 5_000_000 + b"0]}", "the message has more members than any event"),
        (b'{"a":' * 100_000, "the message is not an event: "),
        (b"1" * 5000, "the message is not an event: "),
        (b"NaN", SHAPE),
        (b'{"InputEnd":{},"InputEnd":{}}', "a name appears twice in one map"),
        (b'{"PayloadPart":{"Bytes":"","Bytes":""}}',
         "a name appears twice in one map"),
        (json_part(b"1"), "Bytes must be a base64 string"),
        (json_part(b"null"), "Bytes must be a base64 string"),
        (json_part(b'["AA=="]'), "Bytes must be a base64 string"),
        (json_part(b'"A"'), "Bytes must be base64"),
        (json_part(b'"AAA"'), "Bytes must be base64"),
        (json_part(b'"AA="'), "Bytes must be base64"),
        (json_part(b'"AA==="'), "Bytes must be base64"),
        (json_part(b'"AA==AA=="'), "Bytes must be base64"),
        (json_part(b'"=AAA"'), "Bytes must be base64"),
        (json_part(b'"AA =="'), "Bytes must be base64"),
        (json_part(b'"AAAA\\n"'), "Bytes must be base64"),
        (json_part(b'"-_-_"'), "Bytes must be base64"),
        (json_part(b'"\\u00e4AAA"'), "Bytes must be base64"),
        (json_part(b'"\\ud800"'), "Bytes must be base64"),
    ],
)  # fmt: skip
def test_refusals_of_json(message, reason):
    with pytest.raises(EnvelopeError) as refused:
        JsonEnvelope.decode(message)
    assert str(refused.value).startswith(reason)


@pytest.mark.parametrize(
    "message",
    [b' {"InputEnd":{}}\r\n', b'{"InputEnd" : {}}', b'{"\\u0049nputEnd":{}}'],
)
def test_json_may_be_written_in_any_way(message):
    assert JsonEnvelope.decode(message) == InputEnd()


@BOTH
def test_a_refusal_does_not_repeat_what_was_sent(envelope):
    """Refusals are logged and sent back, payloads are not to be (their content is the user's)."""
    secret = "hunter2"
    for value in (
        {secret: {}},
        {"PayloadPart": {secret: b""}},
        {"PayloadPart": {"DataType": secret}},
        {"PayloadPart": {"CompletionState": secret}},
        {"PayloadPart": secret},
        secret,
    ):
        with pytest.raises(EnvelopeError) as refused:
            envelope.decode(pack(envelope, value))
        assert secret not in str(refused.value)


@BOTH
@given(message=st.binary())
def test_any_bytes_are_an_event_or_refused(envelope, message):
    with contextlib.suppress(EnvelopeError):
        envelope.decode(message)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text()
    | st.sampled_from(["PayloadPart", "InputEnd", "Bytes", "UTF8", "PARTIAL", "ModelStreamError"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["PayloadPart", "InputEnd", "ModelStreamError", "InternalStreamFailure",
                         "Bytes", "DataType", "CompletionState", "P", "ErrorCode", "Message"])
        | st.text(max_size=3),
        inner,
        max_size=3,
    ),
    max_leaves=6,
)  # fmt: skip


@BOTH
@given(value=VALUES)
def test_any_value_is_an_event_or_refused(envelope, value):
    """What is taken is what comes out again, so nothing is taken for what it is not."""
    try:
        event = envelope.decode(pack(envelope, value))
    except EnvelopeError:
        return
    ((name, members),) = value.items()
    ((again, written),) = (
        msgpack.unpackb(envelope.encode(event))
        if envelope is MsgpackEnvelope
        else json.loads(envelope.encode(event))
    ).items()
    assert name == again
    for member in ("DataType", "CompletionState", "ErrorCode", "Message"):
        if member in members and member in written:
            assert members[member] == written[member]


@BOTH
@given(data=st.data())
def test_one_changed_byte_is_an_event_or_refused(envelope, data):
    message = bytearray(envelope.encode(data.draw(EVENTS)))
    at = data.draw(st.integers(0, len(message) - 1))
    message[at] = data.draw(st.integers(0, 255))
    with contextlib.suppress(EnvelopeError):
        envelope.decode(bytes(message))


def test_a_length_is_not_believed():
    """A header that announces gigabytes takes no memory for them."""
    for first in (0xC6, 0xC9, 0xDB, 0xDD, 0xDF):
        with pytest.raises(EnvelopeError):
            MsgpackEnvelope.decode(bytes([first]) + struct.pack("!I", 2**32 - 1) + b"\x00" * 64)


# --- Assembling ----------------------------------------------------------------------------------


def test_fragments_become_messages():
    assembler = MessageAssembler(10)
    assert assembler.add(b"whole", fin=True) == b"whole"
    assert assembler.add(b"a", fin=False) is None
    assert assembler.add(b"", fin=False) is None
    assert assembler.held_bytes == 1
    assert assembler.add(b"b", fin=True) == b"ab"
    assert assembler.held_bytes == 0
    assert assembler.add(b"next", fin=True) == b"next"


def test_a_message_has_bounds_in_bytes_and_in_fragments():
    assembler = MessageAssembler(10)
    assert assembler.add(bytes(10), fin=False) is None
    with pytest.raises(MessageTooBig, match="must have at most 10 bytes"):
        assembler.add(b"x", fin=True)
    assert assembler.held_bytes == 0
    for _ in range(MAX_ENVELOPE_FRAGMENTS):
        assert assembler.add(b"", fin=False) is None
    with pytest.raises(MessageTooBig, match=f"at most {MAX_ENVELOPE_FRAGMENTS} fragments"):
        assembler.add(b"", fin=True)
    assert assembler.add(b"fresh", fin=True) == b"fresh"


def test_what_is_held_can_be_dropped():
    assembler = MessageAssembler(10)
    assembler.add(b"a", fin=False)
    assembler.drop()
    assert assembler.held_bytes == 0
    assert assembler.add(b"b", fin=True) == b"b"


# --- Step by step ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small_pieces():
    """A piece is a dozen bytes, so that small parts have several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(envelopes, "JSON_PIECE", 12)
        yield


def step_by_step(message):
    """What the steps lead to, and how many there are."""
    steps, count = JsonEnvelope.decoding(message), 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1


@given(event=EVENTS)
@example(event=PayloadPart(bytes(range(256)) * 10))
def test_steps_lead_to_the_same_event(event, small_pieces):
    message = JsonEnvelope.encode(event)
    found, steps = step_by_step(message)
    assert found == event
    assert steps >= 3 + (len(event.payload) // 12 if isinstance(event, PayloadPart) else 0)


@given(st.text(st.sampled_from("QUJD=+/-\u00e9\\ "), max_size=64))
@example("QUJDQUJDQUJDQQ==QUJD")
@example("QUJDQUJDQUJDQUI=")
def test_steps_refuse_the_same_base64(small_pieces, encoded):
    message = json.dumps({"PayloadPart": {"Bytes": encoded}}).encode()
    try:
        wanted = JsonEnvelope.decode(message)
    except EnvelopeError as error:
        with pytest.raises(EnvelopeError, match=f"^{re.escape(str(error))}$"):
            step_by_step(message)
    else:
        assert step_by_step(message)[0] == wanted


@pytest.mark.parametrize(
    "message",
    [
        b"\xff",
        b"{",
        b"[]",
        b"1",
        b'{"PayloadPart": 1}',
        b'{"PayloadPart": {"Bytes": 1}}',
        b'{"PayloadPart": {"Bytes": null}}',
        b'{"PayloadPart": {"Bytes": "QQ==", "Bytes": "QQ=="}}',
        b'{"PayloadPart": {"Bytes": "QQ==", "bytes": ""}}',
        b'{"InputEnd": {"Bytes": "QQ=="}}',
        b"{" + b"," * 33,
        b"[" * 33,
    ],
)
def test_steps_refuse_what_is_refused_at_once(message):
    with pytest.raises(EnvelopeError) as at_once:
        JsonEnvelope.decode(message)
    with pytest.raises(EnvelopeError) as in_steps:
        step_by_step(message)
    assert str(in_steps.value) == str(at_once.value)


@given(
    part=st.builds(
        PayloadPart, st.binary(), st.sampled_from(DataType), st.sampled_from(CompletionState)
    )
)
def test_pieces_are_the_message(part, small_pieces):
    pieces = list(JsonEnvelope.pieces(part))
    assert b"".join(piece for piece, _ in pieces) == JsonEnvelope.encode(part)
    assert [last for _, last in pieces] == [False] * (len(pieces) - 1) + [True]
    assert len(pieces) == 2 + -(-len(part.payload) // 12)
