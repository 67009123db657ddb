"""All formats alike: identity, any cutting, any bytes, and time that grows with the length."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from partway.protocol.formats import (
    RECORD_TYPES,
    Batch,
    CannotWrite,
    MediaFault,
    OverLimit,
    SparseRows,
    Tabular,
    UnsupportedMedia,
    decode,
    decoder_for,
    encode,
    format_of,
)
from partway.protocol.formats.recordio import framed
from partway.protocol.limits import MAX_RECORDS
from tests.protocol.formats.cases import SPARSE, read, refused, taken

TEXT = {"text/csv", "text/libsvm", "application/json", "application/jsonlines"}
BINARY = {"application/x-recordio-protobuf", "application/x-npy"}
#: Where a sparse record stays one, and where a record has a label.
SPARSE_TYPES = set(RECORD_TYPES) - {"text/csv", "application/x-npy"}
LABELS = {"text/csv": 3, "text/libsvm": 1, "application/x-recordio-protobuf": 3}


def test_the_types():
    assert set(RECORD_TYPES) == TEXT | BINARY


@st.composite
def batches(draw, media_type):
    rows, width = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    kind = draw(st.sampled_from([np.float64] if media_type in TEXT else [np.float32, np.float64]))
    numbers = arrays.arrays(
        kind, (rows, width), elements={"allow_nan": False, "allow_infinity": False}
    )
    features = draw(numbers)
    labels = None
    if most := LABELS.get(media_type):
        count = draw(st.integers(1 if media_type == "text/libsvm" else 0, most))
        if count:
            labels = draw(arrays.arrays(kind, (rows, count), elements=st.integers(-9, 9)))
    if media_type in SPARSE_TYPES and draw(st.booleans()):
        mask = draw(arrays.arrays(np.bool_, (rows, width)))
        starts = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        features = SparseRows(features[mask], np.nonzero(mask)[1], starts, width)
    return Batch(features, labels)


def content_type(media_type, batch):
    labels = 0 if batch.labels is None else batch.labels.shape[1]
    return f"{media_type}; label_size={labels}" if media_type == "text/csv" else media_type


def same(one, other):
    assert np.array_equal(one.dense(), other.dense())
    assert one.dense().dtype == other.dense().dtype
    labels = (None if each.labels is None else each.labels.tolist() for each in (one, other))
    assert len({str(each) for each in labels}) == 1
    assert (one.uid, one.metadata) == (other.uid, other.metadata)
    if isinstance(one.features, SparseRows) and isinstance(other.features, SparseRows):
        for name in ("keys", "values", "starts"):
            assert np.array_equal(getattr(one.features, name), getattr(other.features, name))


@pytest.mark.parametrize("media_type", RECORD_TYPES)
@given(st.data())
def test_what_was_written_is_read_however_it_is_cut(media_type, data):
    batch = data.draw(batches(media_type))
    body = encode(batch, media_type)
    wanted = Tabular(width=batch.width, sparse=True)
    whole = read(body, content_type(media_type, batch), wanted)
    assert np.array_equal(whole.dense(), batch.dense())
    if batch.labels is not None:
        assert np.array_equal(whole.labels, batch.labels)
    if isinstance(batch.features, SparseRows):
        assert np.array_equal(whole.features.keys, batch.features.keys)
    places = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    pieces = [body[a:b] for a, b in zip([0, *places], [*places, len(body)], strict=True)]
    same(whole, taken(decoder_for(content_type(media_type, batch), wanted), pieces))


def outcome(pieces, media_type):
    try:
        batch = taken(decoder_for(media_type, SPARSE), pieces)
    except MediaFault as fault:
        return fault.reason
    return str((batch.dense()[:, :50].tolist(), batch.uid, batch.labels))


BODIES = {
    media_type: encode(Batch(np.array([[1.5, -2e300], [0.25, 7]])), media_type)
    for media_type in RECORD_TYPES
}


@pytest.mark.parametrize("media_type", RECORD_TYPES)
@given(st.data())
def test_any_bytes_are_records_or_a_fault_however_they_are_cut(media_type, data):
    body = bytearray(data.draw(st.sampled_from([BODIES[media_type], BODIES[media_type] * 3, b""])))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(body)))
        piece = st.sampled_from([b"\n", b",", b"{", b'"', b"]", b"1", b"\xff", b"\0", b" ", b":"])
        body[at : at + data.draw(st.integers(0, 4))] = data.draw(piece | st.binary(max_size=6))
    text = bytes(body)
    whole = outcome([text], media_type)
    at = data.draw(st.integers(0, len(text)))
    assert outcome([text[:at], text[at:]], media_type) == whole
    assert outcome([text[i : i + 1] for i in range(len(text))], media_type) == whole


#: Bodies of as many bytes as are asked for: one line, one record, one nesting, one number, and what
#: else is read as a whole.
LONG = [
    ("text/csv", lambda size: b"1.5," * (size // 4) + b"1.5"),
    ("text/csv", lambda size: b"1" * size),
    ("text/csv", lambda size: b"1\n" * (size // 2)),
    ("text/libsvm", lambda size: b"1 " * (size // 2)),
    ("text/libsvm", lambda size: b" ".join(b"%d:1" % key for key in range(size // 9))),
    ("application/json", lambda size: b'{"instances": [' + b"[" * size),
    ("application/json",
     lambda size: b'{"instances": [{"features": [%b1]}]}' % (b"1," * (size // 2))),
    ("application/json", lambda size: b'{"instances": [{"features": [%b]}]}' % (b"1" * size)),
    ("application/json", lambda size: b'{"instances": [' + b'{"data":' * (size // 8)),
    ("application/json", lambda size: b'{"configuration": "' + b"}, {" * (size // 4)),
    ("application/jsonlines", lambda size: b'{"features": [%b1]}' % (b"1," * (size // 2))),
    ("application/jsonlines", lambda size: b'{"features": [%b]}' % (b"1" * size)),
    ("application/jsonlines", lambda size: b"[" * size),
    ("application/x-recordio-protobuf", lambda size: framed(b"") * (size // 8)),
    ("application/x-recordio-protobuf", lambda size: framed(b"\x0a" * size)),
    ("application/x-recordio-protobuf", lambda size: b"\x0a" * size),
    ("application/x-recordio-protobuf", lambda size: one_record(size, np.float32)),
    ("application/x-npy", lambda size: BODIES["application/x-npy"] + bytes(size)),
    ("application/x-npy", lambda size: one_record(size, np.float64)),
]  # fmt: skip
#: One line again, whose last cell is at fault: each is read by itself, which takes long.
CELL_BY_CELL = ("text/csv", lambda size: b"1.5," * (size // 16))
LARGE, SMALL = 5_000_000, 1_250_000


def one_record(size, kind):
    media_type = "application/x-npy" if kind is np.float64 else "application/x-recordio-protobuf"
    return encode(Batch(np.ones((1, size // kind().itemsize), kind)), media_type)


def tried(body, media_type, pieces):
    """Have a body read, and forget what it holds."""
    step = max(1, len(body) // pieces)
    decoder = decoder_for(media_type, SPARSE)
    with suppress(MediaFault):
        for at in range(0, len(body), step):
            for _ in decoder.feed(body[at : at + step]):
                pass
        for _ in decoder.finish():
            pass


@pytest.mark.parametrize(("media_type", "body"), [*LONG, CELL_BY_CELL])
def test_time_grows_with_the_length(media_type, body):
    large, small = body(LARGE), body(SMALL)

    def cost(data, pieces):
        began = time.process_time()
        tried(data, media_type, pieces)
        return time.process_time() - began

    # A hundredth of a second is lost in what the machine does besides.
    for pieces in (1, 500):
        for _ in range(3):
            if cost(large, 4 * pieces) < 0.03 + 8 * cost(small, pieces):
                break
        else:
            pytest.fail(f"four times the bytes take more than eight times as long ({pieces})")


@pytest.mark.parametrize(("media_type", "body"), LONG)
def test_memory_grows_with_the_length_of_a_record_at_most(media_type, body):
    def peak_of(data):
        tracemalloc.start()
        try:
            tried(data, media_type, 100)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    tried(body(1000), media_type, 1)  # what is kept for ever is made once
    # Each allocation is traced, and they show by less than what takes time does.
    large, small = LARGE // 2, SMALL // 2
    most = peak_of(body(large))
    assert most < 250_000 + 6 * peak_of(body(small))
    assert most < 32 * large


def test_types_that_are_not_read():
    for name in ("image/png", "", "text/csvx", "application/octet-stream"):
        with pytest.raises(UnsupportedMedia, match="must be one of text/csv, ") as caught:
            decoder_for(name, SPARSE)
        assert caught.value.status == 415
        assert caught.value.reason.startswith(f"Content-Type: '{name}' was given")
    with pytest.raises(UnsupportedMedia, match="application/x-npz is not read"):
        decoder_for("application/x-npz", SPARSE)
    with pytest.raises(UnsupportedMedia) as caught:
        decoder_for("\x1b[2J" * 1000, SPARSE)
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) < 1000
    for size, shown in (("-1", "'-1'"), ("x", "'x'"), ("1" * 20, "'1"), ("²", r"'\\xb2'")):
        with pytest.raises(UnsupportedMedia, match=f"label_size={shown}.* must be a whole number"):
            decoder_for(f"text/csv; label_size={size}", SPARSE)


def test_the_body_s_own_configuration_stays_with_its_records():
    body = b'{"instances": [{"features": [1]}], "configuration": {"a": 1}}'
    assert decode(body, "application/JSON; charset=utf-8", SPARSE).configuration == {"a": 1}
    assert decode(b"1", "text/csv", SPARSE).configuration is None


@pytest.mark.parametrize("media_type", RECORD_TYPES)
def test_nothing_of_a_body_is_quoted(media_type):
    secret = b"s3cr3t"
    for place in range(0, len(BODIES[media_type]), 3):
        body = BODIES[media_type][:place] + secret + BODIES[media_type][place:]
        assert "s3c" not in outcome([body], media_type)


def test_what_a_format_has_no_place_for():
    batch = Batch(np.ones((1, 1)), np.ones((1, 2)))
    for media_type in ("application/json", "application/jsonlines", "application/x-npy"):
        with pytest.raises(CannotWrite, match=r"2 labels; .* can hold none"):
            encode(batch, media_type)
    with pytest.raises(CannotWrite, match="can hold only 1"):
        encode(batch, "text/libsvm")
    for media_type in TEXT:
        with pytest.raises(CannotWrite, match=r"record 0: feature 0 is NaN .* must be finite"):
            encode(Batch(np.array([[np.nan]])), media_type)
    for media_type in ("text/csv", "text/libsvm"):
        with pytest.raises(CannotWrite, match="record 1: label 0 is NaN or infinite"):
            encode(Batch(np.ones((2, 3)), np.array([[1], [np.inf]])), media_type)
    for media_type in ("text/csv", "text/libsvm", "application/x-npy"):
        with pytest.raises(CannotWrite, match=f"record 1: .* a uid; {media_type} has no place"):
            encode(Batch(np.ones((2, 3)), uid=[None, "a"]), media_type)


def test_which_number_of_a_sparse_record_is_not_finite():
    rows = SparseRows(np.array([1, np.nan]), np.array([4, 2]), np.array([0, 0, 1, 2]), 5)
    with pytest.raises(CannotWrite, match="record 9: feature 2 is NaN"):
        encode(Batch(rows, first=7), "text/csv")


@pytest.mark.parametrize("media_type", sorted(set(RECORD_TYPES) - {"text/libsvm"}))
def test_all_records_of_a_body_are_as_wide_as_its_first(media_type):
    encoder = format_of(media_type).encoder()
    encoder.encode(Batch(np.ones((2, 3))))
    with pytest.raises(CannotWrite, match="record 2: the record has 4 features; it must have 3"):
        encoder.encode(Batch(np.ones((1, 4)), first=2))


def test_labels_are_finite_where_features_are():
    bad = Batch(np.ones((2, 1), np.float32), np.array([[1], [np.nan]], np.float32))
    recordio = "application/x-recordio-protobuf"
    body = encode(bad, recordio)
    reason = "record 1: label 0 is NaN or infinite; it must be a finite number"
    assert refused(body, recordio) == reason
    assert refused(b"1,1\n1,nan,", "text/csv; label_size=1").startswith("record 1 (line 2)")
    reason = "record 1 (line 2): label 0 is NaN or infinite; it must be a finite number"
    assert refused(b"1,1\nnan,1\n", "text/csv; label_size=1") == reason
    assert refused(b"1 0:1\nnan 0:1\n", "text/libsvm") == reason
    assert np.isnan(read(body, recordio, Tabular(finite=False)).labels[1, 0])


@pytest.mark.parametrize("media_type", RECORD_TYPES)
def test_large_numbers_are_finite_though_their_sum_is_not(media_type):
    for number in (1.7e308, -1.7e308):
        body = encode(Batch(np.full((3, 2), number)), media_type)
        assert read(body, media_type).dense().tolist() == [[number] * 2] * 3


@pytest.mark.parametrize("numbers", [[np.inf, -np.inf], [np.nan, 1], [1, -np.inf]])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_what_is_not_finite_is_found(kind, numbers):
    body = encode(Batch(np.array([[1, 2], numbers], kind)), "application/x-npy")
    column = int(not np.isinf(numbers[0]) and not np.isnan(numbers[0]))
    reason = f"record 1: feature {column} is NaN or infinite; it must be a finite number"
    assert refused(body, "application/x-npy") == reason


@pytest.mark.parametrize("media_type", sorted(TEXT))
@pytest.mark.parametrize("rows", [1, 40])
def test_who_gets_an_array_of_a_text_may_write_to_it(media_type, rows):
    body = encode(Batch(np.ones((rows, 3))), media_type)
    features = read(body, media_type, Tabular(width=3)).features
    features -= 1
    assert not features.any()


def test_how_many_records_there_may_be():
    body = b"1\n" * 1001
    with pytest.raises(OverLimit, match="there are more than 1000 records") as caught:
        read(body, "text/csv", Tabular(max_records=1000))
    assert caught.value.status == 413
    for most in (1001, None):
        assert len(read(body, "text/csv", Tabular(max_records=most), size=100)) == 1001
    assert Tabular().max_records == MAX_RECORDS


def test_what_is_wanted_must_make_sense():
    with pytest.raises(ValueError, match="width: 0 was given"):
        Tabular(width=0)
    with pytest.raises(ValueError, match="index_base: 2 was given"):
        Tabular(index_base=2)


def test_a_width_that_the_model_has_said():
    assert refused(b"1,2", "text/csv", Tabular(width=1)).endswith("1, one for each feature")
    body = b'{"features": [1, 2]}'
    assert refused(body, "application/jsonlines", Tabular(width=1)) == (
        "record 0 (line 1): the record has 2 features; it must have 1, as the model requires"
    )


def peak(media_type, times):
    """The most memory while a body of so many parts is read, whose batches nobody keeps."""
    part = encode(Batch(np.arange(1600.0).reshape(-1, 4)), media_type)
    pieces = [part] * times
    if media_type == "application/json":
        begin = b'{"instances": ['
        pieces = [part[:-2], *[b"," + part[len(begin) : -2]] * (times - 1), b"]}"]
    elif media_type == "application/x-npy":
        body = encode(Batch(np.ones((400 * times, 4))), media_type)
        pieces = [body[at : at + len(part)] for at in range(0, len(body), len(part))]
    decoder = decoder_for(media_type, SPARSE)
    tracemalloc.start()
    try:
        records = sum(len(batch) for piece in pieces for batch in decoder.feed(piece))
        records += sum(map(len, decoder.finish()))
        assert records == 400 * times
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("media_type", RECORD_TYPES)
def test_memory_does_not_grow_with_the_body(media_type):
    peak(media_type, 4)  # what is kept for ever is made once
    assert peak(media_type, 40) < 1.5 * peak(media_type, 4)
