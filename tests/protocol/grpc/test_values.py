"""Values and JSON; the messages are of the classes that protobuf has for them itself."""

from __future__ import annotations

import json
import math

import pytest
from google.protobuf import json_format, struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.grpc.values import json_of, values_of
from partway.protocol.limits import GRPC_VALUE_DEPTH
from partway.protocol.prediction.bodies import PredictionFault

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(2**53), 2**53)
    | st.text(),
    lambda each: st.lists(each, max_size=4) | st.dictionaries(st.text(), each, max_size=4),
    max_leaves=20,
)


def values(*found):
    """Values as protobuf's own library makes them."""
    return [json_format.ParseDict(each, struct_pb2.Value()) for each in found]


@given(st.lists(PLAIN, max_size=4))
def test_values_become_json_and_json_values(found):
    text = json_of(values(*found))
    assert json.loads(text) == found
    back = struct_pb2.ListValue.FromString(values_of(text))
    again = struct_pb2.ListValue.FromString(back.SerializeToString())
    assert json_format.MessageToDict(again) == found


def test_whole_numbers_are_written_as_such():
    text = json_of(values(1.0, -3.0, 0.5, 1e300, 2.0**53, 2.0**53 + 2))
    assert text == b"[1,-3,0.5,1e+300,9007199254740992,9007199254740994.0]"


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.just("x") | st.none()))
def test_vectors_are_what_their_elements_are(found):
    text = json_of(values([found], found))
    assert json.loads(text) == [[found], found]
    back = struct_pb2.ListValue.FromString(values_of(text))
    assert json_format.MessageToDict(back) == [[found], found]


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
VECTORS = st.lists(NUMBERS, max_size=3)


@given(st.lists(VECTORS | st.lists(VECTORS, max_size=3) | st.lists(st.none() | NUMBERS)))
def test_lists_of_vectors_are_what_their_elements_are(found):
    alone = [json.loads(json_of(values(each)))[0] for each in found]
    assert json.loads(json_of(values(*found))) == alone == found


@pytest.mark.parametrize("count", [0, 1, 1024, 1025])
def test_vectors_of_any_length(count):
    vector = [0.5 + each for each in range(count)]
    text = json_of(values(vector, [*vector, 7]))
    assert json.loads(text) == [vector, [*vector, 7]]
    back = struct_pb2.ListValue.FromString(values_of(text))
    assert [*back.values] == values(vector, [*vector, 7])


def test_numbers_whose_sum_no_double_holds_are_numbers():
    assert json_of(values([1.5e308, 1.5e308])) == b"[[1.5e+308,1.5e+308]]"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_none_are_refused(number):
    alone = struct_pb2.Value(number_value=number)
    vector = struct_pb2.Value(list_value={"values": [{"number_value": 1.0}, alone]})
    for found in (alone, vector):
        with pytest.raises(PredictionFault, match=f"a number is {number}; it must be finite"):
            json_of([found])


def test_a_value_without_a_kind_is_refused():
    with pytest.raises(PredictionFault, match="no kind"):
        json_of([struct_pb2.Value()])


def test_a_number_that_no_double_holds_is_refused():
    digits = b"9" * 40
    back = struct_pb2.ListValue.FromString(values_of(b"[%b]" % digits))
    assert back.values[0].number_value == 1e40
    for text in (b"[1e400]", b"[%b]" % (b"9" * 400)):
        with pytest.raises(PredictionFault, match="larger than a double"):
            values_of(text)


def test_a_string_that_is_no_unicode_is_refused():
    with pytest.raises(PredictionFault, match="half of a surrogate pair"):
        values_of(rb'["\ud800"]')


@pytest.mark.parametrize("opened", [(b"[", b"]"), (b'{"a":', b"}")])
def test_what_is_nested_is_what_clients_read(opened):
    begin, end = opened

    def nested(levels):
        return b"[%b0%b]" % (begin * levels, end * levels)

    back = struct_pb2.ListValue.FromString(values_of(nested(GRPC_VALUE_DEPTH)))
    again = struct_pb2.ListValue.FromString(back.SerializeToString())
    assert json_of(again.values) == nested(GRPC_VALUE_DEPTH)
    with pytest.raises(PredictionFault, match="deeper than 32 levels"):
        values_of(nested(GRPC_VALUE_DEPTH + 1))
