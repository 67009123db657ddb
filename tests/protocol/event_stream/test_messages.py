from __future__ import annotations

import itertools
import struct
import sys
import time
import tracemalloc
import uuid
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partway.protocol.event_stream.headers import (
    EventStreamError,
    Header,
    HeaderType,
    decode_headers,
    encode_headers,
)
from partway.protocol.event_stream.reader import Decoder, Message, decode, decode_raw
from partway.protocol.event_stream.writer import CONTENT_TYPE, encode, encode_raw
from partway.protocol.limits import MAX_EVENT_HEADERS, MAX_EVENT_HEADERS_BYTES, MAX_PART_BYTES
from tests import event_factory as raw

MIB = 1024 * 1024
LONGEST_VALUE = 32767
AN_ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


def decode_pieces(pieces, *, max_payload=1000, max_headers=1000):
    """What comes out of ``pieces``: the messages, and the error's (reason, oversize) if any."""
    decoder = Decoder(max_payload, max_headers)
    messages = []
    for piece in pieces:
        decoder.feed(piece)
        try:
            while (message := decoder.next_message()) is not None:
                messages.append(message)
        except EventStreamError as error:
            found = (error.reason, error.oversize)
            decoder.feed(raw.message())
            with pytest.raises(EventStreamError) as again:
                decoder.next_message()
            assert (again.value.reason, again.value.oversize) == found
            assert decoder.buffered_bytes == 0
            assert not decoder.mid_message
            return messages, found
    return messages, None


def decode_any_way(data, **limits):
    """The same whole, byte by byte, cut at every point, and with a beginning behind it."""
    whole = decode_pieces([data], **limits)
    assert decode_pieces([bytes([byte]) for byte in data], **limits) == whole
    assert decode_pieces([b"", data, b""], **limits) == whole
    for cut in range(1, len(data)):
        assert decode_pieces([data[:cut], data[cut:]], **limits) == whole, f"cut at {cut}"
    if whole[1] is None:
        for size in (1, 11, 12, 15):
            assert decode_pieces([data + raw.message()[:size]], **limits) == whole
    return whole


# --- Headers -------------------------------------------------------------------------------------

HEADERS = [
    (raw.header("on", raw.TRUE), Header(HeaderType.TRUE, True), "026f6e00"),
    (raw.header("on", raw.FALSE), Header(HeaderType.FALSE, False), "026f6e01"),
    (raw.header("n", raw.BYTE, -128), Header(HeaderType.BYTE, -128), "016e0280"),
    (raw.header("n", raw.SHORT, -2), Header(HeaderType.SHORT, -2), "016e03fffe"),
    (raw.header("n", raw.INT, 258), Header(HeaderType.INT, 258), "016e0400000102"),
    (raw.header("n", raw.LONG, -1), Header(HeaderType.LONG, -1), "016e05" + "ff" * 8),
    (raw.header("b", raw.BYTES, b"\0\xff"), Header(HeaderType.BYTES, b"\0\xff"), "016206000200ff"),
    (raw.header("b", raw.BYTES, b""), Header(HeaderType.BYTES, b""), "0162060000"),
    (raw.string("s", "ä"), Header(HeaderType.STRING, "ä"), "0173070002c3a4"),
    (raw.string("é", ""), Header(HeaderType.STRING, ""), "02c3a9070000"),
    (raw.header("t", raw.TIMESTAMP, -1), Header(HeaderType.TIMESTAMP, -1), "017408" + "ff" * 8),
    (raw.header("u", raw.UUID, AN_ID.bytes), Header(HeaderType.UUID, AN_ID),
     "01750900112233445566778899aabbccddeeff"),
]  # fmt: skip


@pytest.mark.parametrize(("block", "value", "hex_digits"), HEADERS)
def test_each_type_of_header(block, value, hex_digits):
    assert block.hex() == hex_digits
    name = block[1 : 1 + block[0]].decode()
    assert decode_headers(block) == {name: value}
    assert type(decode_headers(block)[name].value) is type(value.value)
    assert encode_headers({name: value}) == block


def test_headers_keep_their_order():
    block = b"".join(raw.string(name, "") for name in "zay")
    assert list(decode_headers(block)) == ["z", "a", "y"]
    assert encode_headers(decode_headers(block)) == block


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"": Header(HeaderType.TRUE, True)}, "1 to 255 bytes, not 0"),
        ({"ä" * 128: Header(HeaderType.TRUE, True)}, "1 to 255 bytes, not 256"),
        ({"n": Header(HeaderType.TRUE, False)}, "a bool was given as TRUE"),
        ({"n": Header(HeaderType.FALSE, True)}, "a bool was given as FALSE"),
        ({"n": Header(HeaderType.BYTE, 128)}, "BYTE must fit into 1 bytes"),
        ({"n": Header(HeaderType.SHORT, -32769)}, "SHORT must fit into 2 bytes"),
        ({"n": Header(HeaderType.INT, 1 << 31)}, "INT must fit into 4 bytes"),
        ({"n": Header(HeaderType.LONG, 1 << 63)}, "LONG must fit into 8 bytes"),
        ({"n": Header(HeaderType.TIMESTAMP, -(1 << 63) - 1)}, "TIMESTAMP must fit into 8 bytes"),
        ({"n": Header(HeaderType.INT, True)}, "a bool was given as INT"),
        ({"n": Header(HeaderType.INT, "1")}, "a str was given as INT"),
        ({"n": Header(HeaderType.STRING, b"1")}, "a bytes was given as STRING"),
        ({"n": Header(HeaderType.BYTES, "1")}, "a str was given as BYTES"),
        ({"n": Header(HeaderType.UUID, b"1" * 16)}, "a bytes was given as UUID"),
        ({"n": Header(HeaderType.STRING, "\ud800")}, "surrogates not allowed"),
        ({"n": Header(HeaderType.STRING, "x" * (LONGEST_VALUE + 1))}, "value has 32768 bytes; it"),
        ({"n": Header(HeaderType.BYTES, bytes(LONGEST_VALUE + 1))}, "value has 32768 bytes; it"),
        ({str(n): Header(HeaderType.TRUE, True) for n in range(65)},
         "65 headers were given; there must be at most 64"),
        ({str(n): Header(HeaderType.BYTES, bytes(LONGEST_VALUE)) for n in range(4)},
         "have 131088 bytes; they must have at most 131072"),
    ],
)  # fmt: skip
def test_what_cannot_be_encoded(headers, words):
    with pytest.raises(ValueError, match=words):
        encode(headers)


def test_a_length_that_does_not_fit_is_refused():
    class Endless(bytes):
        def __len__(self):
            return 1 << 32

    with pytest.raises(ValueError, match="must have at most 4294967295"):
        encode_raw(b"", Endless())


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (b"\0\0", "a header name is empty, at byte 0"),
        (raw.string("a", "b") + b"\0", "a header name is empty, at byte 6"),
        (b"\x01", "end inside the field at byte 0"),
        (b"\x01n", "end inside the field at byte 0"),
        (raw.string("a", "b") + b"\x05nam", "end inside the field at byte 6"),
        (b"\x01n\x02", "end inside the field at byte 2"),
        (b"\x01n\x08" + bytes(7), "end inside the field at byte 2"),
        (b"\x01n\x09" + bytes(15), "end inside the field at byte 2"),
        (b"\x01n\x06\x00", "end inside the field at byte 2"),
        (b"\x01n\x07\x00\x02a", "end inside the field at byte 2"),
        (b"\x01n\x0a", "unknown header type 10, at byte 2"),
        (b"\x01n\xff", "unknown header type 255, at byte 2"),
        (b"\x01\xff\x00", "not UTF-8, at byte 1"),
        (raw.header("s", raw.STRING, b"\xc3"), "not UTF-8, at byte 5"),
        (raw.header("s", raw.STRING, b"\xed\xa0\x80"), "not UTF-8, at byte 5"),
        (raw.string("a", "b") * 2, "a header appears twice, at byte 6"),
        (raw.header("s", raw.BYTES, bytes(32768)), "has 32768 bytes, at byte 2 of the headers"),
        (raw.header("s", raw.STRING, b"x" * 65535), "has 65535 bytes, at byte 2 of the headers"),
    ],
)
def test_headers_that_are_none(block, words):
    with pytest.raises(EventStreamError) as caught:
        decode_headers(block)
    assert words in caught.value.reason
    assert not caught.value.oversize
    messages, error = decode_pieces([raw.message(block)], max_headers=MAX_EVENT_HEADERS_BYTES)
    assert (messages, error) == ([], (caught.value.reason, False))


def test_the_longest_header_passes():
    block = raw.header("n" * 255, raw.STRING, b"x" * LONGEST_VALUE)
    (found,) = decode_headers(block).values()
    assert found.value == "x" * LONGEST_VALUE
    assert encode_headers(decode_headers(block)) == block


def test_the_longest_block_passes_and_the_next_does_not():
    block = b"".join(raw.header(str(n), raw.BYTES, bytes(32763)) for n in range(4))
    assert len(block) == MAX_EVENT_HEADERS_BYTES
    assert len(decode(raw.message(block)).headers) == 4
    with pytest.raises(
        EventStreamError, match="have 131073 bytes; they must have at most 131072"
    ) as caught:
        decode(raw.message(block + b"\0"))
    assert caught.value.oversize


def test_headers_are_counted():
    """A block of 128 KiB could hold 40,000."""
    few = b"".join(raw.header(str(n), raw.TRUE) for n in range(MAX_EVENT_HEADERS))
    assert len(decode_headers(few)) == 64
    with pytest.raises(EventStreamError, match="more than 64 headers") as caught:
        decode_headers(few + raw.header("more", raw.TRUE))
    assert caught.value.oversize


# --- Messages ------------------------------------------------------------------------------------

MESSAGES = [
    (raw.message(), Message({}, b"")),
    (raw.message(b"", b"payload"), Message({}, b"payload")),
    (raw.message(raw.string("a", "b")), Message({"a": Header(HeaderType.STRING, "b")}, b"")),
    (
        raw.message(raw.string("a", "b") + raw.header("t", raw.TIMESTAMP, 7), b"\0" * 40),
        Message(
            {"a": Header(HeaderType.STRING, "b"), "t": Header(HeaderType.TIMESTAMP, 7)}, b"\0" * 40
        ),
    ),
]


@pytest.mark.clause("2.3-1")
@pytest.mark.parametrize(("data", "message"), MESSAGES)
def test_messages_there_and_back(data, message):
    assert encode(message.headers, message.payload) == data
    assert decode(data) == message
    assert decode_raw(data) == (encode_headers(message.headers), message.payload)
    assert decode_any_way(data) == ([message], None)
    assert decode_any_way(data * 3) == ([message] * 3, None)


def test_an_empty_message_is_known_bytes():
    assert encode({}).hex() == "000000100000000005c248eb7d98c8ff"


def test_botocore_reads_what_is_written():
    message = encode(
        {":event": Header(HeaderType.STRING, "x"), "at": Header(HeaderType.TIMESTAMP, 5)}, b"hello"
    )
    assert raw.read(message * 2) == [({":event": "x", "at": 5}, b"hello")] * 2


@pytest.mark.parametrize("size", range(16))
def test_decode_wants_a_whole_message(size):
    with pytest.raises(
        EventStreamError, match=f"^{size} bytes came; a message must have at least 16"
    ):
        decode(raw.message()[:size])


def test_decode_wants_one_message():
    one = raw.message(raw.string("a", "b"), b"payload")
    with pytest.raises(
        EventStreamError, match=r"bytes follow the message: its prelude says 29 bytes, 30"
    ):
        decode(one + b"\0")
    with pytest.raises(
        EventStreamError, match=r"the message is cut: its prelude says 29 bytes, 28 came"
    ):
        decode(one[:-1])


HEAD = raw.string("a", "b")
BROKEN = [
    (raw.message(HEAD, b"x", prelude_crc=0), "the prelude's checksum is wrong", False),
    (raw.message(HEAD, b"x", crc=0), "the message's checksum is wrong", False),
    (raw.message(total=15), "0 bytes of headers cannot be in a message of 15", False),
    (raw.message(total=0), "0 bytes of headers cannot be in a message of 0", False),
    (raw.message(HEAD, headers_length=7), "7 bytes of headers cannot be in a message of 22", False),
    (raw.message(headers_length=0xFFFFFFFF), "4294967295 bytes of headers cannot", False),
    (raw.message(b"", bytes(1001)), "the payload has 1001 bytes; it must have at most 1000", True),
    (raw.message(total=0xFFFFFFFF), "the payload has 4294967279 bytes; it must have", True),
    (raw.message(bytes(1001)), "the headers have 1001 bytes; they must have at most 1000", True),
    (
        raw.message(total=0xFFFFFFFF, headers_length=0xFFFFFFEF),
        "the headers have 4294967279 bytes",
        True,
    ),
    (raw.message(b"\x05", b""), "the headers end inside the field", False),
]


@pytest.mark.parametrize(("data", "words", "oversize"), BROKEN)
def test_each_error_of_a_message(data, words, oversize):
    messages, error = decode_any_way(data)
    assert messages == []
    assert error is not None
    assert words in error[0]
    assert error[1] is oversize
    good = raw.message(HEAD, b"before")
    assert decode_pieces([good + data + good]) == ([decode(good)], error)


def test_limits_are_met_exactly():
    largest = raw.message(raw.header("n", raw.BYTES, bytes(995)), bytes(1000))
    assert len(raw.header("n", raw.BYTES, bytes(995))) == 1000
    messages, error = decode_pieces([largest])
    assert error is None
    assert len(messages[0].payload) == 1000


@pytest.mark.parametrize("damaged", range(12))
def test_lengths_are_believed_only_after_their_checksum(damaged):
    """A flipped bit in a length is an error of the checksum at once, and no wait for bytes."""
    good = bytearray(raw.message(HEAD, b"x"))
    good[damaged] ^= 0x80
    assert decode_pieces([bytes(good[:11])]) == ([], None)
    assert decode_pieces([bytes(good[:12])]) == ([], ("the prelude's checksum is wrong", False))


def test_sizes_are_refused_from_the_prelude_before_anything_is_allocated():
    prelude = raw.message(total=0xFFFFFFFF)[:12]
    decoder = Decoder(MAX_PART_BYTES)
    tracemalloc.start()
    decoder.feed(prelude)
    with pytest.raises(EventStreamError) as caught:
        decoder.next_message()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.oversize
    assert peak < 20_000


def test_a_large_message_to_come_is_not_allocated_for():
    """A length within its limit is believed, but costs nothing until its bytes are there."""
    tracemalloc.start()
    decoders = [Decoder(MAX_PART_BYTES) for _ in range(10)]
    for decoder in decoders:
        decoder.feed(raw.message(b"", total=16 * MIB)[:12] + b"x")
        assert decoder.next_message() is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50_000


def test_errors_do_not_show_the_bytes():
    secret = "wJalrXUtnFEMI"
    for block in (raw.string(secret, secret) * 2, raw.string(secret, secret) + b"\x01"):
        with pytest.raises(EventStreamError) as caught:
            decode(raw.message(block, secret.encode()))
        assert secret not in repr(caught.value)


# --- The decoder's buffer ------------------------------------------------------------------------


def test_buffered_bytes_and_mid_message():
    one, two = raw.message(HEAD, b"one"), raw.message(b"", b"two")
    decoder = Decoder(1000)
    assert (decoder.buffered_bytes, decoder.mid_message) == (0, False)
    for size in range(1, len(one)):
        decoder = Decoder(1000)
        decoder.feed(one + two + one[:size])
        assert decoder.mid_message, "two whole messages and a beginning"
        for left in (len(two) + size, size):
            assert decoder.next_message() is not None
            assert decoder.buffered_bytes == left
            assert decoder.mid_message
        assert decoder.next_message() is None
        assert (decoder.buffered_bytes, decoder.mid_message) == (size, True)
        decoder.feed(one[size:])
        assert not decoder.mid_message
        assert decoder.next_message() == decode(one)
        assert (decoder.buffered_bytes, decoder.mid_message) == (0, False)


def test_mid_message_of_whole_messages_that_wait():
    decoder = Decoder(1000)
    decoder.feed(raw.message(b"", b"x") * 5)
    assert not decoder.mid_message
    assert decoder.next_message() is not None
    decoder.feed(raw.message(HEAD))
    assert not decoder.mid_message


def test_mid_message_of_lengths_that_lead_nowhere():
    decoder = Decoder(1000)
    decoder.feed(bytes(100))
    assert decoder.mid_message


def test_drop_forgets():
    decoder = Decoder(1000)
    decoder.feed(raw.message(HEAD, b"x")[:20])
    assert decoder.next_message() is None
    decoder.drop()
    assert decoder.buffered_bytes == 0
    decoder.feed(raw.message(b"", b"y"))
    assert decoder.next_message() == Message({}, b"y")


def test_nothing_is_kept_of_what_was_delivered():
    decoder = Decoder(MAX_PART_BYTES)
    decoder.feed(raw.message(b"", bytes(8 * MIB)) + b"\0")
    assert decoder.next_message() is not None
    assert decoder.next_message() is None
    assert decoder.buffered_bytes == 1
    assert sys.getsizeof(decoder._buffer) < 1024


def test_payloads_of_gathered_messages_are_bytes():
    data = raw.message(HEAD, b"payload")
    ((message,), _) = decode_pieces([data[:20], data[20:]])
    assert type(message.payload) is bytes


def cost(work):
    """Seconds of the processor that ``work()`` took, the best of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def in_pieces(data, size, *, drain=True):
    decoder = Decoder(MAX_PART_BYTES)
    for at in range(0, len(data), size):
        decoder.feed(data[at : at + size])
        if drain:
            while decoder.next_raw() is not None:
                pass
        else:
            decoder.next_raw()
    while decoder.next_raw() is not None:
        pass
    assert decoder.buffered_bytes == 0


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        (50_000, lambda size: in_pieces(raw.message(b"", bytes(size)), 1)),
        (1_000_000, lambda size: in_pieces(raw.message(b"", bytes(size)), 100)),
        (200_000, lambda size: in_pieces(raw.message() * (size // 16), size)),
        (50_000, lambda size: in_pieces(raw.message() * (size // 16), 17)),
        (200_000, lambda size: in_pieces(raw.message() * (size // 16), 40, drain=False)),
        (200_000, lambda size: in_pieces(raw.message() * (size // 16), size // 2, drain=False)),
    ],
    ids=["bytes", "pieces", "one feed", "misaligned", "backlog", "two feeds"],
)
def test_time_is_linear(size, shape):
    """Four times the bytes take about four times as long; squared, they would take sixteen."""
    assert cost(lambda: shape(size * 4)) < 9 * max(cost(lambda: shape(size)), 0.002)


def test_mid_message_takes_linear_time():
    def look(count):
        decoder = Decoder(1000)
        decoder.feed(raw.message() * count)
        assert not decoder.mid_message

    assert cost(lambda: look(80_000)) < 9 * max(cost(lambda: look(20_000)), 0.002)


def test_a_largest_part_in_small_pieces():
    data = raw.message(HEAD, bytes(MAX_PART_BYTES))
    decoder = Decoder(MAX_PART_BYTES)
    for at in range(0, len(data), 1460):
        decoder.feed(data[at : at + 1460])
        message = decoder.next_message()
    assert len(message.payload) == MAX_PART_BYTES


# --- Any input -----------------------------------------------------------------------------------

INTS = {
    HeaderType.BYTE: 7, HeaderType.SHORT: 15, HeaderType.INT: 31,
    HeaderType.LONG: 63, HeaderType.TIMESTAMP: 63,
}  # fmt: skip
VALUES = st.one_of(
    st.just(Header(HeaderType.TRUE, True)),
    st.just(Header(HeaderType.FALSE, False)),
    st.builds(Header, st.just(HeaderType.BYTES), st.binary(max_size=40)),
    st.builds(Header, st.just(HeaderType.STRING), st.text(max_size=20)),
    st.builds(Header, st.just(HeaderType.UUID), st.uuids()),
    *(
        st.builds(Header, st.just(kind), st.integers(-(1 << bits), (1 << bits) - 1))
        for kind, bits in INTS.items()
    ),
)
HEADER_MAPS = st.dictionaries(st.text(min_size=1, max_size=20), VALUES, max_size=5)


def by_factory(headers, payload):
    def written(kind, value):
        match value:
            case bool():
                return None
            case uuid.UUID():
                return value.bytes
            case str():
                return value.encode()
            case _:
                return value

    block = b"".join(
        raw.header(name, int(kind), written(kind, value)) for name, (kind, value) in headers.items()
    )
    return raw.message(block, payload)


@given(headers=HEADER_MAPS, payload=st.binary(max_size=100))
def test_round_trip_beside_the_factory_and_botocore(headers, payload):
    data = encode(headers, payload)
    assert data == by_factory(headers, payload)
    assert decode(data) == Message(headers, payload)
    ((theirs, their_payload),) = raw.read(data)
    assert their_payload == payload
    assert list(theirs) == list(headers)
    for name, (kind, value) in headers.items():
        assert theirs[name] == (value.bytes if kind is HeaderType.UUID else value)


@settings(max_examples=100)
@given(
    messages=st.lists(st.tuples(HEADER_MAPS, st.binary(max_size=50)), max_size=4),
    cuts=st.lists(st.integers(0, 800), max_size=6),
)
def test_any_split_gives_the_same(messages, cuts):
    stream = b"".join(by_factory(*message) for message in messages)
    bounds = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    pieces = [stream[start:end] for start, end in itertools.pairwise(bounds)]
    assert decode_pieces(pieces) == ([Message(*message) for message in messages], None)


@given(pieces=st.lists(st.binary(max_size=64), max_size=6))
def test_any_bytes_are_messages_or_an_error(pieces):
    decode_pieces(pieces)


@given(block=st.binary(max_size=64))
def test_any_header_block_is_headers_or_an_error(block):
    try:
        headers = decode_headers(block)
    except EventStreamError:
        return
    assert encode_headers(headers) == block


@st.composite
def mutated(draw):
    data = bytearray(by_factory(draw(HEADER_MAPS), draw(st.binary(max_size=30))))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        match draw(st.sampled_from(["set", "drop", "add"])):
            case "set":
                data[at] = draw(st.integers(0, 255))
            case "drop" if len(data) > 1:
                del data[at]
            case _:
                data[at:at] = draw(st.binary(max_size=3))
    if draw(st.booleans()) and len(data) >= 16:
        # Mended checksums let the damage through to what reads lengths and headers.
        data[8:12] = struct.pack("!I", zlib.crc32(data[:8]))
        data[-4:] = struct.pack("!I", zlib.crc32(data[:-4]))
    return bytes(data)


@settings(max_examples=250)
@given(data=mutated())
def test_a_damaged_message_is_a_message_or_an_error(data):
    messages, error = decode_pieces([data])
    try:
        message = decode(data)
    except EventStreamError:
        pass
    else:
        assert (messages, error) == ([message], None)
        assert encode(*message) == data


def test_the_module_names_its_content_type():
    assert CONTENT_TYPE == "application/vnd.amazon.eventstream"
