"""JSON: the object around the records, and records many at a time."""

from __future__ import annotations

import json

import numpy as np
import pytest

from partway.protocol.formats import Batch, OverLimit, SparseRows, Tabular, decoder_for, encode
from partway.protocol.limits import MAX_JSON_DEPTH, MAX_JSON_TABLE_BYTES, MEDIA_PIECE
from tests.protocol.formats.cases import SPARSE, read, refused

JSON = "application/json"
MUST_BE = '[…], {"COLUMN": …, …}, {"features": […]} or {"data": {"features": {"values": […]}}}'
BODY = f'{{"instances": [{MUST_BE}, …]}}'
KNOWN = "it may have instances, configuration, parameters, signature_name"
NO = "the body is not JSON:"
FIRST = [1.5, 16.0, 14.0, 23.0]


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ('{ "instances": [ { "features": [1.5, 16.0, 14.0, 23.0] } ] }', [FIRST]),
        ('{ "instances": [ { "data": { "features": { "values": [ 1.5, 16.0, 14.0, 23.0] } } } ] }',
         [FIRST]),
        ('{"instances": [{"data": {"features": [1.5, 16, 14, 23]}}]}', [FIRST]),
        ('{"instances": [{"data": {"my field": [1.5, 16, 14, 23]}}]}', [FIRST]),
        (('{"instances": [{"data": {"features": {"keys": [], "shape": [2, 2], '
         '"values": [1.5, 16, 14, 23]}}}]}'), [FIRST]),
        (('{ "instances": [ { "features": [ 1.5, 16.0, 14.0, 23.0 ] }, '
         '{ "features": [ -2.0, 100.2, 15.2, 9.2 ] } ] }'), [FIRST, [-2.0, 100.2, 15.2, 9.2]]),
        ('{"configuration": {"a": "}"}, "instances": [{"features": [1]}]}', [[1]]),
        ('{"instances": [{"features": [1]}], "configuration": {}}\r\n', [[1]]),
        ('\ufeff{"instances":[{"features":[1]}\n,\t{"features":[2]}]}', [[1], [2]]),
        ('{"inst\\u0061nces": [{"features": [1]}]}', [[1]]),
    ],
)  # fmt: skip
def test_bodies(body, rows):
    for size in (0, 1, 7):
        assert read(body.encode(), JSON, size=size).features.tolist() == rows


def test_the_page_s_sparse_request():
    body = """{ "instances": [
        {"data": {"features": { "keys": [26, 182, 232, 243, 431], "shape": [2000],
                                "values": [1, 1, 1, 4, 1] } } },
        {"data": {"features": { "keys": [0, 182, 232, 243, 431], "shape": [2000],
                                "values": [13, 1, 1, 4, 1] } } } ] }"""
    batch = read(body.encode(), JSON, size=50)
    assert isinstance(batch.features, SparseRows)
    assert batch.features.keys.tolist() == [26, 182, 232, 243, 431, 0, 182, 232, 243, 431]
    assert batch.features.values.tolist() == [1, 1, 1, 4, 1, 13, 1, 1, 4, 1]
    assert batch.features.starts.tolist() == [0, 5, 10]
    assert batch.width == 2000
    # As the page has it, with a comma after the last record.
    reason = refused(body.replace("} } } ]", "} } }, ]").encode(), JSON)
    assert reason.startswith(f"{NO} expected a record after the comma at byte ")


def test_configurations():
    body = (
        b'{"instances": [{"features": [1], "configuration": {"k": 2}}], "configuration": {"a": 1}}'
    )
    decoder = decoder_for(JSON, SPARSE)
    (batch,) = [*decoder.feed(body), *decoder.finish()]
    assert batch.configurations == [{"k": 2}]
    assert decoder.configuration == {"a": 1}


def bodies_of_many() -> list[str]:
    plain = [{"features": [number / 4, -1.5e300]} for number in range(20_000)]
    nested = [{"data": {"features": {"values": [number, 1]}}} for number in range(20_000)]
    mixed = [plain[0], nested[0]] * 10_000
    return [json.dumps({"instances": each}) for each in (plain, nested, mixed)]


@pytest.mark.parametrize("body", bodies_of_many(), ids=["plain", "nested", "mixed"])
def test_many_records_come_a_piece_at_a_time(body):
    expected = [
        (each.get("features") or each["data"]["features"]["values"])
        for each in json.loads(body)["instances"]
    ]
    data = body.encode()
    for size in (len(data), 5000, 4 * MEDIA_PIECE):
        decoder = decoder_for(JSON, SPARSE)
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        found = [each for piece in pieces for each in decoder.feed(piece)]
        found += decoder.finish()
        assert [row for batch in found for row in batch.features.tolist()] == expected
        assert len(found) > 3
        assert max(map(len, found)) < 8000
        assert [each.first for each in found] == [
            sum(map(len, found[:number])) for number in range(len(found))
        ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", f"the body is empty; it must be {BODY}"),
        ("[]", "the body has no record"),
        ("[1, 2", f"{NO} it ends too early, at byte 5"),
        ("[[1, 2]] x", f"{NO} expected the end at byte 9"),
        ("7", f"{NO} expected {{ or [ at byte 0"),
        ("{}", f"the body has no instances; it must be {BODY}"),
        ('{"instances": []}', "the body has no record"),
        ('{"instances": {}}', f"the body: instances must be an array: {BODY}"),
        ('{"instances": [{"features": [1]}]} x', f"{NO} expected the end at byte 35"),
        ('{"instances": [{"features": [1]}]', f"{NO} it ends too early, at byte 33"),
        ('{"instances": [{"features": [1]}, {"features": [2',
         "record 1: the body is not JSON: it ends too early, at byte 49"),
        ('{"instances": [{"features": [1]}; {"features": [2]}]}',
         f"{NO} expected , or ] at byte 32"),
        ('{"instances": [{"features": [1]}], "data": 1}',
         f"the body: an object has an unknown member; {KNOWN}"),
        ('{"instances": [{"features": [1]}], "instances": []}',
         f"{NO} an object has a member twice"),
        ('{"instances": [{"features": [1]}], "configuration": 3}',
         "the body: configuration is a number; it must be an object"),
        ('{"instances": [{"features": [1]}], "configuration": {"k": 1}, "parameters": {"k": 1}}',
         "the body: it must not have both configuration and parameters"),
        ('{"instances": [{"features": [1]}, {"features": [2}]}]}',
         "record 1: the record is not JSON: Expecting ',' delimiter at byte 49"),
        ('{"instances": [null]}', f"record 0: null was given; it must be {MUST_BE}"),
        ('{"instances": ["a"]}', f"record 0: a string was given; it must be {MUST_BE}"),
        ('{"instances": [x]}', f"{NO} expected a record at byte 15"),
        ('{"instances": [{"features": [1]}, {"features": [1], "id": 1}]}',
         ("record 1: an object has an unknown member; it may have features, data, configuration, "
          "uid, metadata")),
        ('{"instances": [{"features": ' + "[" * 100 + "]}",
         f"the body is not read: it is nested deeper than {MAX_JSON_DEPTH} levels"),
    ],
)  # fmt: skip
def test_faults(text, reason):
    assert refused(text.encode(), JSON) == reason


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ('{"features": [3, true]}', "features[1] is a boolean; it must be a number"),
        ('{"features": [3]}', "the record has 1 features; it must have 2, as record 0 has"),
        ('{"features": [3, 4], "features": [3, 4]}',
         "the record is not JSON: an object has a member twice"),
        ('{"features": [3, 1e999]}', "features[1] is too large for float64"),
        ('{"features": [3, "4"]}', "features[1] is a string; it must be a number"),
        ('{"features": {}}', f"features must have values: {MUST_BE}"),
    ],
)  # fmt: skip
def test_the_one_record_at_fault_among_many(damage, reason):
    records = ['{"features": [1, 2]}'] * 3000
    records[1234] = damage
    body = f'{{"instances": [{", ".join(records)}]}}'.encode()
    assert refused(body, JSON) == f"record 1234: {reason}"


ROWS = [[1.5, 16.0], [-2.0, 1e300]]
TENSOR = '{"name": "x", "datatype": "FP64", '

#: The same two records as clients of each service write them.
FORMS = {
    "rows": "[[1.5, 16], [-2, 1e300]]",
    "Vertex, KServe, TF Serving": '{"instances": [[1.5, 16], [-2, 1e300]]}',
    "with parameters of nothing": '{"parameters": null, "instances": [[1.5, 16], [-2, 1e300]]}',
    "with a signature's name": '{"signature_name": "d", "instances": [[1.5, 16], [-2, 1e300]]}',
    "columns by name": '{"instances": [{"a": 1.5, "b": 16}, {"b": 1e300, "a": -2}]}',
    "columns of one value each": '{"instances": [{"a": [1.5], "b": [16]}, {"a": -2, "b": 1e300}]}',
    "a named tensor": '{"instances": [{"input-0": [1.5, 16]}, {"input-0": [-2, 1e300]}]}',
    "wrapped": '{"instances": [{"data": [1.5, 16]}, {"data": [-2, 1e300]}]}',
    "mixed": '{"instances": [{"features": [1.5, 16]}, [-2, 1e300]]}',
    "TF Serving's unnamed column": '{"inputs": [[1.5, 16], [-2, 1e300]]}',
    "TF Serving's only column": '{"inputs": {"features": [[1.5, 16], [-2, 1e300]]}}',
    "TF Serving's columns": '{"inputs": {"a": [1.5, -2], "b": [16, 1e300]}}',
    "V2": f'{{"id": "7", "inputs": [{TENSOR}"shape": [2, 2], "data": [1.5, 16, -2, 1e300]}}]}}',
    "V2, nested": f'{{"inputs": [{TENSOR}"shape": [2, 2], "data": [[1.5, 16], [-2, 1e300]]}}]}}',
    "V2, by column": (
        f'{{"inputs": [{TENSOR}"shape": [2], "data": [1.5, -2]}}, '
        '{"name": "y", "datatype": "FP64", "shape": [2, 1], "data": [16, 1e300]}]}'
    ),
    "pandas: split": '{"columns": ["a", "b"], "index": [0, 1], "data": [[1.5, 16], [-2, 1e300]]}',
    "pandas: records": '[{"a": 1.5, "b": 16}, {"b": 1e300, "a": -2}]',
    "pandas: list": '{"a": [1.5, -2], "b": [16, 1e300]}',
    "MLflow: split": (
        '{"dataframe_split": {"columns": ["a", "b"], "data": [[1.5, 16], [-2, 1e300]]}}'
    ),
    "MLflow: records": '{"dataframe_records": [{"a": 1.5, "b": 16}, {"a": -2, "b": 1e300}]}',
}


@pytest.mark.parametrize("body", FORMS.values(), ids=[*FORMS])
def test_the_same_records_in_every_form(body):
    for wanted in (SPARSE, Tabular(width=2)):
        for size in (0, 1, 7):
            assert read(body.encode(), JSON, wanted, size=size).features.tolist() == ROWS


@pytest.mark.parametrize(
    "body",
    [
        "[1.5, 16]",
        " [ 1.5 , 16 ] ",
        '{"a": 1.5, "b": 16}',
        '{"features": [1.5, 16]}',
        f'{{"inputs": [{TENSOR}"shape": [2], "data": [1.5, 16]}}]}}',
    ],
)
def test_one_row(body):
    for size in (0, 1):
        assert read(body.encode(), JSON, Tabular(width=2), size=size).features.tolist() == [
            [1.5, 16]
        ]


def test_one_value_an_instance():
    for size in (0, 1):
        assert read(b'{"instances": [1, -2]}', JSON, size=size).features.tolist() == [[1], [-2]]
    for body in (b'{"instances": [1, 2]}', b'{"inputs": [1, 2]}'):
        assert refused(body, JSON, Tabular(width=2)) == (
            "record 0: a number was given; it must be an array of 2 values: send one record as "
            "[[…]], or as a tensor of the shape [1, 2]"
        )


NAMED = Tabular(names=("a", "features"))


@pytest.mark.parametrize(
    "body",
    [
        '[{"features": 16, "a": 1.5}, {"a": -2, "features": 1e300}]',
        '{"inputs": {"features": [16, 1e300], "a": [1.5, -2]}}',
        '{"columns": ["features", "a"], "data": [[16, 1.5], [1e300, -2]]}',
        "[[1.5, 16], [-2, 1e300]]",
        '{"instances": [{"input-0": [1.5, 16]}, {"input-0": [-2, 1e300]}]}',
    ],
)
def test_the_model_s_own_names_are_its_order(body):
    assert read(body.encode(), JSON, NAMED).features.tolist() == ROWS


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ('[{"a": 1}]',
         "record 0: the column 'features' is missing; the columns must be a, features"),
        ('[{"a": 1, "features": 2, "c": 3}]',
         "record 0: 1 columns are unknown to the model; the columns must be a, features"),
        ('{"columns": ["a", "b"], "data": [[1, 2]]}',
         "the column 'features' is missing; the columns must be a, features"),
        ('[{"a": 1, "features": "x"}]', "record 0: features[1] is a string; it must be a number"),
        ('{"columns": ["a", "features"], "data": [[1, 2], [3]]}',
         "record 1: it must be an array of 2 values"),
        ('{"columns": ["a", "a"], "data": [[1, 2]]}',
         "columns has the same name twice; each column must have a different name"),
        ('{"inputs": {"a": [1, 2], "features": [3]}}',
         "the columns have 1 to 2 values; each column must have one value for each record"),
        ('{"inputs": 7}', "inputs: a number was given; it must be an array"),
        ('{"inputs": []}', "the body has no record"),
        (f'{{"inputs": [{TENSOR}"shape": [1, 2], "data": [1, 2, 3]}}]}}', "inputs: "),
        ('{"inputs": [[1, 2]], "instances": [[1, 2]]}', "there are unknown members beside "),
        ('{"inputs": [[1, 2]], "parameters": [1]}',
         "the body: parameters is an array; it must be an object"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit(body, reason):
    assert refused(body.encode(), JSON, NAMED).startswith(reason)


def test_columns_without_a_model_s_names_keep_to_the_first_record():
    assert read(b'[{"b": 2, "a": 1}, {"a": 3, "b": 4}]', JSON).features.tolist() == [[2, 1], [4, 3]]
    assert refused(b'[{"a": 1, "b": 2}, {"a": 1, "c": 2}]', JSON) == (
        "record 1: the columns differ from those of record 0; all records must have columns with "
        "the same names"
    )


@pytest.mark.parametrize(
    "record", ["[{0}, -1.5e300]", '{{"α": {0}, "b": -1.5e300}}'], ids=["rows", "named"]
)
def test_many_rows_come_a_piece_at_a_time(record):
    records = ", ".join(record.format(number / 4) for number in range(20_000))
    for body in (f'{{"instances": [{records}]}}', f"[{records}]"):
        decoder = decoder_for(JSON, Tabular(width=2))
        found = [*decoder.feed(body.encode()), *decoder.finish()]
        rows = [row for batch in found for row in batch.features.tolist()]
        assert rows == [[number / 4, -1.5e300] for number in range(20_000)]
        assert len(found) > 3


def test_a_table_that_is_one_value_is_bounded():
    body = b'{"inputs": [%b1]}' % (b"1," * (MAX_JSON_TABLE_BYTES // 2))
    with pytest.raises(OverLimit, match="the body is longer than 8388608 bytes"):
        read(body, JSON)


def test_parameters_are_the_body_s_configuration():
    for body in (
        b'{"parameters": {"k": 1}, "inputs": [[1]]}',
        b'{"instances": [[1]], "parameters": {"k": 1}}',
    ):
        decoder = decoder_for(JSON, SPARSE)
        assert [*decoder.feed(body), *decoder.finish()][0].features.tolist() == [[1]]
        assert decoder.configuration == {"k": 1}


@pytest.mark.parametrize("damage", ["true", "false", "null", '"1"', "[1]", "{}", ""])
def test_what_is_no_number_among_many(damage):
    records = ['{"features": [1, 2]}'] * 300
    for at in (0, 123):
        for bad in (f'{{"features": [3, {damage}]}}', f'{{"features": {damage or 7}}}'):
            body = f'{{"instances": [{", ".join([*records[:at], bad, *records[at:]])}]}}'
            assert refused(body.encode(), JSON, Tabular(width=2)).startswith(f"record {at}: ")


def test_what_looks_like_the_space_between_records():
    texts = [
        '{"features": [1], "uid": "}, {"}',
        '{"features": [2], "configuration": {"a": [{}, {}]}}',
    ]
    body = f'{{"instances": [{", ".join(texts * 40)}]}}'.encode()
    batch = read(body, JSON)
    assert batch.uid == ["}, {", None] * 40
    assert batch.configurations == [None, {"a": [{}, {}]}] * 40
    assert read(body, JSON, size=100).features.tolist() == batch.features.tolist()


def test_many_are_written_as_one_by_one():
    numbers = np.random.default_rng(1).normal(size=(600, 3))
    records = ",".join(
        f'{{"features":{json.dumps(row.tolist(), separators=(",", ":"))}}}' for row in numbers
    )
    assert encode(Batch(numbers), JSON).decode() == f'{{"instances": [{records}]}}'
    integers = Batch(np.arange(-4, 4, dtype=np.int8).reshape(4, 2).T)  # not in the order of rows
    assert json.loads(encode(integers, JSON)) == {
        "instances": [{"features": [-4, -2, 0, 2]}, {"features": [-3, -1, 1, 3]}]
    }


def test_writing():
    dense = Batch(np.array([[1.5, 2], [3, 4]]), configuration={"a": 1})
    body = encode(dense, JSON)
    assert body == (
        b'{"instances": [{"features":[1.5,2.0]},{"features":[3.0,4.0]}], "configuration": {"a":1}}'
    )
