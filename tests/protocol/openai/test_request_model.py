"""partway.protocol.openai.request_model: a model is taken out, and nothing else changes."""

from __future__ import annotations

import json
from contextlib import suppress
from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.protocol.openai.request_model import (
    MAX_FORM_FIELDS,
    ModelUnknown,
    from_form,
    from_json,
    from_query,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), VALUES), st.text(min_size=1))
def test_the_other_members_of_a_body_stay(members, model):
    body = json.dumps(members | {"model": model}).encode()
    taken = from_json(body)
    assert taken.model == model
    assert json.loads(taken.rest) == members | {"model": ""}


@pytest.mark.parametrize(
    ("body", "rest"),
    [
        (b'{"n": 1e400, "model": "m"}', b'{"n":1e400,"model":""}'),
        (b'{"model":"m","s":"\\ud800"}', b'{"model":"","s":"\\ud800"}'),
        (b'{"model":"a","model":"m"}', b'{"model":""}'),
        (b' {"model":"\\u006d"} ', b'{"model":""}'),
    ],
    ids=["a number too large for a double", "half a surrogate pair", "twice", "escaped"],
)
def test_texts_stay_as_they_were(body, rest):
    assert from_json(body) == ("m", rest)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "the body must be a JSON object"),
        (b"[]", "the body must be a JSON object"),
        (b'{"model":', "the body must be a JSON object"),
        (b"\xff", "the body must be a JSON object"),
        (b"{}", "model: it is missing; it must name an endpoint"),
        (b'{"model":""}', "model: it is empty; it must name an endpoint"),
        (b'{"model":7}', "model: 7 was given; it must be a string"),
        (b'{"model":null}', "model: null was given; it must be a string"),
        (b'{"model":%b}' % (b"1" * 5000), "model: 1{32} was given; it must be a string"),
        (b'{"model":[%b]}' % b",".join([b"[]"] * 10**5), "model: .* it must be a string"),
        (b'{"model":"%b"}' % (b"a" * 1024), "model: .* it must be a string"),
        (b'{"a":1,' * 200_001, "the body must have at most 200000 members"),
        (b'{"a"\n :1,' * 200_001, "the body must have at most 200000 members"),
        (b'{"a":' + b"[" * 5000, "the body's JSON is nested too deep|must be a JSON object"),
        ('{"model":"m"}'.encode("utf-16"), "the body must be a JSON object in UTF-8"),
        ('{"model":"m"}'.encode("utf-16-le"), "the body must be a JSON object in UTF-8"),
        (b'{"s":"\\ud800","model":"m","a":"%b"}' % (b"a" * 65_536), "must be a JSON object"),
    ],
)
def test_a_body_without_a_model(body, says):
    with pytest.raises(ModelUnknown, match=says):
        from_json(body)


@given(st.binary(max_size=64))
def test_any_body_is_read_or_refused(body):
    for read in (from_json, lambda body: from_form(body, "multipart/form-data; boundary=x")):
        with suppress(ModelUnknown):
            assert read(body).model


def form(*fields: tuple[str, bytes], boundary="b0", preamble=b"") -> bytes:
    parts = [
        b"--%s\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n"
        % (boundary.encode(), head.encode(), content)
        for head, content in fields
    ]
    return preamble + b"".join(parts) + b"--%s--\r\n" % boundary.encode()


FILE = ('name="file"; filename="a.wav"', b"\r\n--b1\r\n\x00" * 100)
TYPE = "multipart/form-data; boundary=b0"


@pytest.mark.parametrize("name", ['name="model"', "name=model", 'filename="x"; name="model"'])
@pytest.mark.parametrize("content_type", [TYPE, 'Multipart/Form-Data; charset=x; boundary="b0"'])
@pytest.mark.parametrize("preamble", [b"", b"\r\n", b"said by nobody\r\n"])
def test_the_other_fields_of_a_form_stay(name, content_type, preamble):
    for fields in ([(name, b"chat"), FILE], [FILE, (name, b"chat")]):
        taken = from_form(form(*fields, preamble=preamble), content_type)
        expected = form(*((head, b"" if head == name else said) for head, said in fields))
        assert taken == ("chat", preamble + expected)


@pytest.mark.parametrize(
    ("body", "content_type", "says"),
    [
        (form(FILE), TYPE, "model: it is missing"),
        (form(('name="model"', b"")), TYPE, "model: it is empty"),
        (form(*[('name="model"', b"a")] * 2), TYPE, "model: it was given 2 times"),
        (form(('name="model"', b"a"))[:-8], TYPE, "must end with its boundary"),
        (b"--b0\r\n--b0--", TYPE, "must end with its boundary"),
        (b"", TYPE, "must have the boundary that Content-Type names"),
        (form(FILE), "multipart/form-data", "must have a boundary of 1 to 70 characters"),
        (form(FILE), f"{TYPE}{'0' * 70}", "must have a boundary of 1 to 70 characters"),
        (form(*[FILE] * (MAX_FORM_FIELDS + 1)), TYPE, f"at most {MAX_FORM_FIELDS} fields"),
        (form((f'name="{"a" * 5000}"', b"")), TYPE, "a head of at most 1024 bytes"),
        (form(("a;" * 450, b"")), TYPE, "model: it is missing"),
        (form(('filename="; name=model"', b"a")), TYPE, "model: it is missing"),
        (form(FILE), "multipart/form-data" + ";a" * 5000, "must have a boundary"),
    ],
)
def test_a_form_without_a_model(body, content_type, says):
    with pytest.raises(ModelUnknown, match=says):
        from_form(body, content_type)


@given(st.text(min_size=1), st.lists(st.tuples(st.text(min_size=1), st.text())))
def test_the_other_parameters_of_a_query_stay(model, others):
    others = [(name, value) for name, value in others if name != "model"]
    taken = from_query(urlencode([*others, ("model", model)]))
    assert taken.model == model
    found = parse_qsl(taken.rest.decode(), keep_blank_values=True)
    assert found == [*others, ("model", "")]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", "missing"), ("a=b", "missing"), ("model=", "is empty"), ("model", "is empty"),
        ("model=a&model=b", "given 2 times"), ("model=a&m%6fdel=b", "given 2 times"),
    ],
)  # fmt: skip
def test_a_query_without_a_model(query, says):
    with pytest.raises(ModelUnknown, match=says):
        from_query(query)
