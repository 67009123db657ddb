"""Requests for predictions and answers, beside a model that does it by Python's own json."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.protocol.limits import KIB, MAX_JSON_DEPTH
from partway.protocol.prediction.bodies import (
    PredictionFault,
    begins_with_instances,
    read_answer,
    read_instances,
    read_request,
)
from tests.protocol.prediction.test_number_tensors import BODIES, harmed

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.sampled_from(['{"b64": "A"}', "]", "},", ":", '"', "\\", "b64", 0, "", 10**40])
)
_BINARY = st.binary(max_size=9).map(lambda data: {"b64": base64.b64encode(data).decode()})
VALUES = st.recursive(
    _SCALARS | _BINARY,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["data", "b64 ", "k", "instances", ":"]), inner)
    ),
    max_leaves=12,
)
_SEVERAL = st.lists(VALUES, min_size=1, max_size=5)
_OTHERS = st.dictionaries(st.sampled_from(["parameters", "signature_name", '"', "{"]), VALUES)


def written(members, spaced, ascii_only):
    separators = (" ,\n", "\t: ") if spaced else None
    return json.dumps(members, separators=separators, ensure_ascii=ascii_only).encode()


def unpadded(value):
    """The same, as clients send it who leave the padding out."""
    if isinstance(value, dict):
        if value.keys() == {"b64"}:
            return {"b64": value["b64"].rstrip("=")}
        return {key: unpadded(each) for key, each in value.items()}
    return [unpadded(each) for each in value] if isinstance(value, list) else value


def is_wrapped(value):
    return isinstance(value, dict) and value.keys() == {"data"}


@given(_SEVERAL, _OTHERS, st.booleans(), st.booleans(), st.booleans())
def test_a_request_is_what_it_says(instances, others, first, spaced, ascii_only):
    members = {"instances": instances} | others if first else others | {"instances": instances}
    for wrap in (False, True):
        found = read_request(written(unpadded(members), spaced, ascii_only), wrap=wrap)
        assert found.instances == len(instances)
        expected = members | (
            {"instances": [each if is_wrapped(each) else {"data": each} for each in instances]}
            if wrap
            else {}
        )
        assert json.loads(found.body) == expected


@given(st.lists(VALUES, max_size=5), _OTHERS, st.booleans(), st.booleans(), st.booleans())
def test_predictions_are_as_they_came(predictions, others, first, spaced, ascii_only):
    of_them = {"predictions": predictions}
    body = written(of_them | others if first else others | of_them, spaced, ascii_only)
    assert json.loads(read_answer(body, len(predictions))) == predictions
    for count in (len(predictions) + 1, len(predictions) - 1):
        with pytest.raises(PredictionFault, match=f"{len(predictions)} pred.* for {count} inst"):
            read_answer(body, count)


SPACES = b" " * (4 * KIB)


def said(read, body, *args, **options):
    """What came of a body, or what was wrong with it, as if there had been no spaces."""
    try:
        found = read(body, *args, **options)
    except PredictionFault as fault:
        at = body.find(SPACES)

        def where(found):
            return f"at {int(found[1]) - (len(SPACES) if -1 < at < int(found[1]) else 0)}"

        return re.sub(r"at (?:character|byte) (\d+)", where, str(fault))
    if isinstance(found, bytes):
        return found.replace(SPACES, b"")
    return replace(found, body=found.body.replace(SPACES, b""))


@given(BODIES | harmed(), st.integers(0, 4))
@example('{"instances": [1, 2], "parameters": {"b64": "X5ad6u"}}', 2)
@example('{"instances": [[1]], "parameters": {"b64": "?"}}', 1)
@example('{"instances": [[1]], "inputs": [2]}', 1)
@example('{"instances": [[1]], "instances": [2]}', 1)
@example('{"instances": []}', 0)
@example('{"instances": [[1], %s]}' % ("[" * 99 + "]" * 99), 2)
def test_a_long_body_is_judged_as_a_short_one(body, count):
    short = body.encode()
    long = short.replace(b"[", b"[" + SPACES, 1)
    for columns in (False, True):
        found = said(read_request, short, columns=columns)
        assert said(read_request, long, columns=columns) == found
    short, long = (each.replace(b'"instances"', b'"predictions"') for each in (short, long))
    assert said(read_answer, long, count) == said(read_answer, short, count)


@given(BODIES | harmed())
@example('{"instances": [[1, 2], {"b64": "AP8"}, ":"]}')
@example('{"instances": [[1]], "inputs": [2]}')
@example('{"instances": [1], "instances": [2]}')
@example('{"instances": [NaN]}')
@example('{"instances": [%s]}' % ("[" * 99 + "]" * 99))
@example('{"instances": [%s]}' % ("[" * 62 + "]" * 62))
def test_who_makes_instances_of_a_body_judges_it_as_who_does_not(text):
    body = text.encode()

    def read(body):
        instances = read_instances(body)
        request = read_request(body)
        assert instances == json.loads(request.body)["instances"]
        return request

    assert said(read, body) == said(read_request, body)


def test_numbers_become_what_python_has_for_them():
    body = b'\xef\xbb\xbf{"instances": [1, -2, 0.1, 1e400, 18446744073709551615, true, null]}'
    instances = read_instances(body)
    assert instances == [1, -2, 0.1, inf, 2**64 - 1, True, None]
    assert [type(each) for each in instances[:3]] == [int, int, float]


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        (b'{"instances": [[1, 2], []]}', 27 + 4 * 64),
        (b'{"instances": [%b1, "a"]}' % (b" " * 64), (23 + 64) * 16),
        (b'{"instances": [1%b, {}]}' % (b" " * 64), (22 + 64) * 16),
    ],
)
def test_what_would_take_longer_is_not_read(body, effort):
    assert read_instances(body, effort=effort - 1) is None
    instances = json.loads(read_request(body).body)["instances"]
    assert read_instances(body, effort=effort) == instances


@pytest.mark.parametrize(
    ("body", "begins"),
    [
        (b'{"instances":[1]}', True),
        (b'\xef\xbb\xbf \t{\r\n"instances" : [1]}', True),
        (b'{"inputs": [1]}', False),
        (b'{"parameters": 1, "instances": [1]}', False),
        (b'[{"instances": [1]}]', False),
        (b"", False),
    ],
)
def test_which_bodies_begin_with_instances(body, begins):
    assert begins_with_instances(body) is begins


def test_numbers_keep_each_of_their_digits():
    numbers = b"[%b, 0.10, 1E5, -0, 1e999]" % (b"9" * 5000)
    body = b'{"instances": %b}' % numbers
    assert read_request(body).body == body
    assert b'{"data": 0.10}, ' in read_request(body, wrap=True).body
    assert read_answer(b'{"predictions": %b}' % numbers, 5) == numbers


def test_what_counts_as_nothing_is_wrapped_too():
    found = read_request(b'{"instances": [0, "", [], {}, false, null]}', wrap=True)
    assert json.loads(found.body)["instances"] == [
        {"data": each} for each in (0, "", [], {}, False, None)
    ]


def test_binary_values_are_padded_wherever_they_are():
    body = b'{"instances": [{"image_bytes": {"b64": "X5ad6u"}}, {"b64" : "IA9j4n\\/"}], "p": "b64"}'
    assert json.loads(read_request(body).body)["instances"] == [
        {"image_bytes": {"b64": "X5ad6g=="}},
        {"b64": "IA9j4n8="},
    ]


def nested(depth):
    return b"[" * depth + b"]" * depth


def test_binary_values_of_columns_are_padded_too():
    found = read_request(b'{"inputs": [{"b64": "AP8"}]}', columns=True)
    assert json.loads(found.body) == {"instances": [{"b64": "AP8="}]}


def test_nesting_has_a_bound():
    for most in (nested(MAX_JSON_DEPTH - 1), b'[{"k": [":"]}, %b]' % nested(MAX_JSON_DEPTH - 2)):
        within = b'{"instances": %b}' % most
        assert read_request(within).body == within
    with pytest.raises(PredictionFault, match="nested"):
        read_request(b'{"instances": [[%b]]}' % nested(MAX_JSON_DEPTH - 1).replace(b"[]", b"[1]"))
    for depth in (MAX_JSON_DEPTH + 1, 2000, 300_000):
        with pytest.raises(PredictionFault, match="nested"):
            read_request(b'{"instances": [{"a": %b}]}' % nested(depth))


@pytest.mark.parametrize(
    "instances",
    [
        '{"values": [1, 2, 3, 4], "key": 1}, {"values": [5, 6, 7, 8], "key": 2}',
        '"the quick brown fox", "the lazy dog"',
        '["the", "quick", "brown"], ["the", "lazy", "dog"]',
        "0.0, 1.1, 2.2",
        "[0, 1, 2], [3, 4, 5]",
        "[[0, 1, 2], [3, 4, 5]], [[0, 1, 2], [3, 4, 5]]",
        "[[[138, 30, 66], [130, 20, 56]]], [[[126, 38, 61], [122, 24, 57]]]",
        '{"b64": "X5ad6u"}, {"b64": "IA9j4nx"}',
        '{"b64": "ASa8asdf"}, {"b64": "JLK7ljk3"}',
        '{"tag": "beach", "image": {"b64": "ASa8asdf"}}, {"tag": "car", "image": {"b64": "JLK7"}}',
        '{"tag": "beach", "image": [[[138, 30, 66]]]}, {"tag": "car", "image": [[[255, 0, 102]]]}',
    ],
)
def test_the_documents_samples(instances):
    found = read_request(b'{"instances": [%b]}' % instances.encode())
    assert found.instances == len(json.loads(f"[{instances}]"))
    padded = instances.replace("X5ad6u", "X5ad6g==").replace("IA9j4nx", "IA9j4nw=")
    assert json.loads(found.body) == {"instances": json.loads(f"[{padded}]")}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not JSON"),
        (b"[]", "an empty array was given; it must be an object"),
        (b"{}", "instances: missing"),
        (b'{"instances": []}', "instances: an empty array was given"),
        (b'{"instances": {}}', "instances: an object was given"),
        (b'{"instances": 5}', "instances: a number was given"),
        (b'{"inputs": [1]}', "instances: missing"),
        (b'{"instances": [1], "instances": [2]}', "a member twice"),
        (b'{"instances": [{"a": 1, "a": 1}]}', "a member twice"),
        (b'{"instances": [NaN]}', "NaN"),
        (b'{"instances": [-Infinity]}', "Infinity"),
        (b'{"instances": ["\xff"]}', "UTF-8"),
        (b'{"instances": [{"b64": "A"}]}', '"b64": …} at byte 15.*must be base64'),
        (b'{"instances": [{"b64": "?"}]}', "must be base64"),
        (b'{"instances": ["1.0,true,\\\\"x\\\\""]}', "not JSON"),  # the document's own
        (b'{"instances": [{"data": , 5}]}', "not JSON"),
        (b'{"instances": [[1, 2], ...]}', "not JSON"),
    ],
)
def test_what_is_no_request(body, why):
    with pytest.raises(PredictionFault, match=why):
        read_request(body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"[1]", "an array was given; it must be an object"),
        (b"{}", "predictions: missing"),
        (b'{"predictions": null}', "predictions: null was given"),
        (b'{"predictions": [NaN]}', "NaN"),
        (b'{"predictions": [1], "predictions": [1]}', "a member twice"),
    ],
)
def test_what_is_no_answer(body, why):
    with pytest.raises(PredictionFault, match=why):
        read_answer(body, 1)
