"""DataProcessing: AWS's guide's examples, and every byte that must stay as it is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.batch.answer_types import Processing, WholeAnswer
from partway.gateway.batch.data_processing import processing_of
from partway.gateway.batch.options import OptionsError, TransformOptions
from partway.protocol.formats.faults import Malformed
from partway.protocol.records import RecordBatch


class Processed:
    """What a job's records become, which are split into lines unless it says otherwise."""

    def __init__(
        self,
        content_type: str = "text/csv",
        *,
        end_too: bool = False,
        first: int = 0,
        **said: Any,
    ) -> None:
        options = TransformOptions(content_type=content_type, **{"split_type": "Line", **said})
        found = processing_of(options, slices_include_end=end_too)
        assert found is not None
        self._of: Processing = found
        self._first = first

    def request(self, records: bytes) -> bytes:
        return self._of.asked(self._batch(records))

    def answer(self, records: bytes, answer: bytes, content_type: str = "") -> bytes:
        return self._of.answered(self._batch(records), WholeAnswer(answer, content_type))

    def _batch(self, records: bytes) -> RecordBatch:
        return RecordBatch(records, self._first, len(records.splitlines()))


# --- The guide's examples ------------------------------------------------------------------------


def test_csv_joined_with_all_of_the_input() -> None:
    of = Processed(join_source="Input")
    assert of.request(b"1.5,2\n3,4\n") == b"1.5,2\n3,4\n"
    assert of.answer(b"1.5,2\n3,4\n", b"0.1\n0.9\n") == b"1.5,2,0.1\n3,4,0.9\n"


def test_csv_without_its_ids_put_out_with_them() -> None:
    of = Processed(input_filter="$[1:]", join_source="Input", output_filter="$[0,-1]")
    assert of.request(b"id1,1.5,2\nid2,3,4\n") == b"1.5,2\n3,4\n"
    assert of.answer(b"id1,1.5,2\nid2,3,4\n", b"0.1\n0.9\n") == b"id1,0.1\nid2,0.9\n"


def test_an_object_gains_its_answer() -> None:
    of = Processed("application/jsonlines", join_source="Input")
    joined = of.answer(b'{"key": 1}\n{"key": 2}\n', b'{"score":0.5}\n[1,2]\n')
    assert joined == (
        b'{"key":1,"SageMakerOutput":{"score":0.5}}\n{"key":2,"SageMakerOutput":[1,2]}\n'
    )


def test_what_is_no_object_becomes_a_member_too() -> None:
    of = Processed("application/jsonlines", join_source="Input")
    assert of.answer(b"[1.5, 2]\n", b"7\n") == b'{"SageMakerInput":[1.5,2],"SageMakerOutput":7}\n'


def test_features_of_an_object_put_out_with_its_id() -> None:
    of = Processed(
        "application/jsonlines",
        input_filter="$.features",
        join_source="Input",
        output_filter="$['id','SageMakerOutput']",
    )
    records = b'{"id": 1, "features": [1.5, 2]}\n{"id": 2, "features": [3, 4]}\n'
    assert of.request(records) == b"[1.5,2]\n[3,4]\n"
    assert of.answer(records, b'{"s":1}\n{"s":2}\n') == (
        b'{"id":1,"SageMakerOutput":{"s":1}}\n{"id":2,"SageMakerOutput":{"s":2}}\n'
    )


def test_a_file_of_json_is_one_record() -> None:
    of = Processed(
        "application/json",
        split_type="None",
        input_filter="$.instances",
        join_source="Input",
        output_filter="$.SageMakerOutput.predictions",
    )
    whole = b'{\n "id": 1,\n "instances": [[1.10], [2]]\n}\n'
    assert of.request(whole) == b"[[1.10],[2]]\n"
    assert of.answer(whole, b'{"predictions": [\n1, 2\n]}\n') == b"[1,2]"


# --- What else is asked for ----------------------------------------------------------------------


def test_only_what_the_container_answers_is_filtered() -> None:
    of = Processed("application/x-image", accept="application/json", split_type="None",
                   output_filter="$.predictions[0]")  # fmt: skip
    assert of.request(b"\x89PNG\r\n") == b"\x89PNG\r\n"
    assert of.answer(b"\x89PNG\r\n", b'{"predictions": [0.50, 1]}') == b"0.50"


def test_only_what_the_container_gets_is_filtered() -> None:
    of = Processed(accept="application/json", input_filter="$[1]")
    assert of.request(b"a,b,c\nd,e,f") == b"b\ne"
    assert of.answer(b"a,b,c\nd,e,f", b"anything\r\n") == b"anything\r\n"


def test_answers_of_csv_are_filtered() -> None:
    of = Processed("application/jsonlines", accept="text/csv", output_filter="$[0]")
    assert of.answer(b"[1]\n[2]\n", b'1,"a,b"\n"x,y",2\n') == b'1\n"x,y"\n'


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_keeps_its_end_on_its_way_to_the_container(end: bytes) -> None:
    assert Processed(input_filter="$[0]").request(b"a,b\r\nc,d" + end) == b"a\r\nc" + end


def test_columns_keep_their_text() -> None:
    of = Processed(input_filter="$[1:]", join_source="Input")
    row = b'id, 1.10 ,"a,""b""",1e400,00012345678901234567890\n'
    assert of.request(row) == b' 1.10 ,"a,""b""",1e400,00012345678901234567890\n'
    assert of.answer(row, b"0.30\r\n") == row.rstrip(b"\n") + b",0.30\n"


@pytest.mark.parametrize(
    "number", ["1.10", "-0", "1E400", "12345678901234567890123456789", "0.1e-7", "1" * 5000]
)
def test_numbers_keep_their_text(number: str) -> None:
    of = Processed("application/jsonlines", input_filter="$.a", join_source="Input")
    record = f'{{"a": [{number}], "b": {number}}}\n'.encode()
    assert of.request(record) == f"[{number}]\n".encode()
    joined = f'{{"a":[{number}],"b":{number},"SageMakerOutput":{number}}}\n'
    assert of.answer(record, f"{number}\n".encode()) == joined.encode()


def test_empty_lines_are_no_records() -> None:
    of = Processed(input_filter="$[1:]", join_source="Input")
    assert of.request(b"\na,1\n\r\nb,2\n\n") == b"\n1\n\r\n2\n\n"
    assert of.answer(b"\na,1\n\r\nb,2\n\n", b"x\ny\n\n") == b"a,1,x\nb,2,y\n"


def test_one_record_may_be_answered_with_json_of_several_lines() -> None:
    of = Processed("application/jsonlines", accept="application/json", join_source="Input")
    assert of.answer(b"[1]\n", b'{\n  "a": 1\n}\n') == (
        b'{"SageMakerInput":[1],"SageMakerOutput":{"a":1}}\n'
    )


def test_the_end_of_a_range_may_be_in_it() -> None:
    assert Processed(input_filter="$[0:1]").request(b"a,b,c\n") == b"a\n"
    assert Processed(input_filter="$[0:1]", end_too=True).request(b"a,b,c\n") == b"a,b\n"


@pytest.mark.parametrize(
    "content_type",
    ["application/jsons", "application/x-ndjson", "Application/JSONLines; charset=utf-8"],
)
def test_names_of_json_lines(content_type: str) -> None:
    assert Processed(content_type, input_filter="$.a").request(b'{"a":1}\n') == b"1\n"


# --- The type of an answer -----------------------------------------------------------------------

#: Jobs of each form: the type of their records, a record, an answer, and the two joined.
JOBS = {
    "CSV": ("text/csv", b"a,b\n", b"0.5\n", b"a,b,0.5\n"),
    "JSON": (
        "application/jsonlines",
        b"[1]\n",
        b"0.5\n",
        b'{"SageMakerInput":[1],"SageMakerOutput":0.5}\n',
    ),
}


@pytest.mark.parametrize(
    ("form", "content_type"),
    [
        ("CSV", ""),
        ("CSV", "text/csv"),
        ("CSV", "Text/CSV; Charset=UTF-8"),
        ("CSV", 'text/csv; charset="us-ascii"; header=absent'),
        ("JSON", " "),
        ("JSON", "application/json"),
        ("JSON", "APPLICATION/JSON;charset=utf-8"),
        ("JSON", "application/jsonlines"),
        ("JSON", "application/x-ndjson"),
        ("JSON", "application/vnd.acme.score+json; version=1"),
    ],
)
def test_an_answer_is_read_as_its_own_type_says(form: str, content_type: str) -> None:
    records, record, answer, joined = JOBS[form]
    assert Processed(records, join_source="Input").answer(record, answer, content_type) == joined
    filtered = Processed(records, output_filter="$[0]")
    first = b"x,y\n" if form == "CSV" else b"[1]\n"
    assert filtered.answer(record, first, content_type).strip() in (b"x", b"1")


@pytest.mark.parametrize("said", [{"join_source": "Input"}, {"output_filter": "$[0]"}])
@pytest.mark.parametrize(
    ("form", "content_type", "why"),
    [
        ("CSV", "application/json", "it must be text/csv, as the job's ContentType says"),
        ("CSV", "application/JSONLines", "it must be text/csv, as the job's ContentType says"),
        ("CSV", "application/vnd.x+json", "it must be text/csv, as the job's ContentType says"),
        ("JSON", "text/csv", "it must be application/jsonlines, as the job's ContentType says"),
        ("CSV", "text/html; charset=utf-8", "must be text/csv, application/json or"),
        ("CSV", "text/plain", "must be text/csv, application/json or"),
        ("JSON", "application/octet-stream", "must be text/csv, application/json or"),
        ("JSON", "text/csv, application/json", "must be text/csv, application/json or"),
        ("JSON", "no type", "must be text/csv, application/json or"),
        ("CSV", "text/csv; charset=utf-16", "its charset must be utf-8"),
        ("JSON", "application/json; charset=iso-8859-1", "its charset must be utf-8"),
    ],
)
def test_an_answer_of_another_type_fails_its_file(
    said: dict[str, Any], form: str, content_type: str, why: str
) -> None:
    records, record, answer, _ = JOBS[form]
    with pytest.raises(Malformed) as fault:
        Processed(records, **said, first=7).answer(record, answer, content_type)
    begins = f"record 7 (line 8): the container's answer has the Content-Type {content_type!r}; "
    assert fault.value.reason.startswith(begins)
    assert why in fault.value.reason


def test_the_expected_type_is_accepts_where_the_job_has_one() -> None:
    of = Processed("application/x-image", accept="application/json", split_type="None",
                   output_filter="$.a")  # fmt: skip
    assert of.answer(b"PNG", b'{"a": 1}', "application/problem+json") == b"1"
    with pytest.raises(Malformed, match="must be application/json, as the job's Accept says"):
        of.answer(b"PNG", b"1,2\n", "text/csv")


@pytest.mark.parametrize("answer", [b'{"score": 0.5}\n', b" [0.5]\n"])
def test_an_answer_without_a_type_that_looks_like_json_is_not_taken_for_csv(answer: bytes) -> None:
    with pytest.raises(Malformed, match=r"^record 0 .* looks like JSON but has no Content-Type"):
        Processed(join_source="Input").answer(b"a\n", answer)
    assert Processed(join_source="Input").answer(b"a\n", answer, "text/csv").startswith(b"a,")


def test_a_header_of_csv_is_no_answer() -> None:
    answer, typed = b"score,label\n0.1,x\n0.9,y\n", "text/csv; header=present"
    joined = Processed(join_source="Input").answer(b"a\nb\n", answer, typed)
    assert joined == b"a,0.1,x\nb,0.9,y\n"
    assert Processed(output_filter="$[1]").answer(b"a\nb\n", answer, typed) == b"x\ny\n"
    with pytest.raises(Malformed, match="has answered 1 lines for 2 records"):
        Processed(join_source="Input").answer(b"a\nb\n", b"score\n0.1\n", typed)


def test_columns_may_be_in_the_charset_of_the_records() -> None:
    of = Processed("text/csv; charset=latin-1", join_source="Input")
    assert of.answer(b"\xe9\n", b"\xe8\n", "text/csv; charset=Latin-1") == b"\xe9,\xe8\n"
    with pytest.raises(Malformed, match="its charset must be utf-8"):
        of.answer(b"\xe9\n", b"\xe8\n", "text/csv; charset=cp1252")


def test_nothing_is_read_of_answers_that_are_neither_filtered_nor_joined() -> None:
    of = Processed(input_filter="$[0]")
    assert of.answer(b"a,b\n", b"\x89PNG", "image/png") == b"\x89PNG"


# --- What is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (b"1\n", "has answered 1 lines for 2 records"),
        (b"1\n2\n3\n", "has answered 3 lines for 2 records"),
        (b"", "has answered 0 lines for 2 records"),
    ],
)
def test_too_few_or_too_many_answers(answers: bytes, says: str) -> None:
    with pytest.raises(Malformed) as fault:
        Processed(join_source="Input").answer(b"a\nb\n", answers)
    assert f"records 0 to 1 (lines 1 to 2): the container {says}" in fault.value.reason


@pytest.mark.parametrize(
    ("records", "record", "says"),
    [
        (b'{"a":1}\n{"a":}\n', 1, "it is not JSON at character 6"),
        (b'{"a":1}\n\xff\n', 1, "bytes that are not UTF-8"),
        (b'{"b":1}\n', 0, "there is no 'a'"),
        (b'{"a":NaN}\n', 0, "NaN is not a number in JSON"),
        (b'{"a":1,"a":2}\n', 0, "an object has a member twice"),
        (b'{"a":"\\ud800"}\n', 0, "cannot be written as JSON in UTF-8"),
        (b"[" * 100_000 + b"]" * 100_000 + b"\n", 0, "nested too deeply"),
        (b'{"a":' + b"[" * 300 + b"]" * 300 + b"}\n", 0, "cannot be written as JSON"),
    ],
)
def test_a_record_at_fault(records: bytes, record: int, says: str) -> None:
    with pytest.raises(Malformed) as fault:
        Processed("application/jsonlines", input_filter="$.a").request(records)
    assert fault.value.reason.startswith(f"record {record} (line {record + 1}): ")
    assert says in fault.value.reason


@pytest.mark.parametrize(
    "fields", [{"input_filter": "$" + "[*,*,*]" * 8}, {"output_filter": "$" + "[*,*,*]" * 8}]
)
def test_a_filter_cannot_make_much_of_little(fields: dict[str, Any]) -> None:
    """It would select the text 6,561 times: 1 GB of 200 KB."""
    of = Processed("application/jsonlines", **fields)
    record = b"[" * 8 + b'"' + b"x" * 200_000 + b'"' + b"]" * 8 + b"\n"
    with pytest.raises(Malformed, match=r"may select a value of 2000\d\d bytes 6561 times; a"):
        of.request(record) if "input_filter" in fields else of.answer(record, record)
    small = b"[[[[[[[[1]]]]]]]]\n"
    made = of.request(small) if "input_filter" in fields else of.answer(small, small)
    assert made.count(b"1") == 6561


def test_a_filter_that_names_each_value_once_takes_records_of_any_size() -> None:
    of = Processed("application/jsonlines", input_filter="$[1,0,2]")
    record = b'["' + b"x" * 40_000_000 + b'",2,3]\n'
    assert of.request(record) == b'[2,"' + b"x" * 40_000_000 + b'",3]\n'


def test_a_row_at_fault() -> None:
    with pytest.raises(
        Malformed,
        match=r"^record 8 \(line 9\): .*there is no element 2; the number of elements is 2",
    ):
        Processed(input_filter="$[2]", first=7).request(b"a,b,c\nd,e\n")
    with pytest.raises(Malformed, match=r"^record 7 \(line 8\): the filter selects no column"):
        Processed(input_filter="$[1:]", first=7).request(b"a\n")
    with pytest.raises(Malformed, match=r"^record 9 \(line 10\): the quote"):
        Processed(join_source="Input", first=7).answer(b'\n\n"a\n', b"1\n")


def test_a_file_at_fault() -> None:
    of = Processed("application/json", split_type="None", input_filter="$.a")
    with pytest.raises(Malformed, match=r"^record 0: it is not JSON at character 10"):
        of.request(b'{\n "a": 1\n')
    of = Processed("application/json", split_type="None", output_filter="$.a")
    with pytest.raises(Malformed, match=r"^record 0: the container's answer to it: it is"):
        of.answer(b"{}", b"<html>")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"x\n", "the container's answer to it: it is not JSON at character 1"),
        (b'{"x":1}\n', "the record already has a member 'SageMakerOutput'"),
    ],
)
def test_an_answer_that_cannot_be_joined(answer: bytes, says: str) -> None:
    with pytest.raises(Malformed) as fault:
        Processed("application/jsonlines", join_source="Input").answer(
            b'{"SageMakerOutput":1}\n', answer
        )
    assert says in str(fault.value)


@pytest.mark.parametrize(
    ("said", "member"),
    [
        (
            {"content_type": "application/x-recordio-protobuf", "join_source": "Input"},
            "ContentType",
        ),
        ({"content_type": "", "input_filter": "$.a"}, "ContentType"),
        ({"accept": "image/png", "output_filter": "$.a"}, "Accept"),
        ({"input_filter": "$.a"}, "InputFilter"),
        ({"input_filter": "$[0][1]"}, "InputFilter"),
        ({"output_filter": "$['a','b']"}, "OutputFilter"),
        ({"output_filter": "$[?@.a]"}, "OutputFilter"),
        ({"input_filter": "$[", "content_type": "application/json"}, "InputFilter"),
        ({"accept": "application/json", "join_source": "Input"}, "JoinSource"),
        ({"split_type": "RecordIO", "join_source": "Input"}, "SplitType"),
    ],
)
def test_what_a_job_may_not_ask_for(said: dict[str, Any], member: str) -> None:
    options = TransformOptions(**{"content_type": "text/csv", "split_type": "Line", **said})
    with pytest.raises(OptionsError) as refused:
        processing_of(options)
    assert refused.value.member == member


@pytest.mark.parametrize("said", [{}, {"input_filter": "", "output_filter": "$"}])
def test_nothing_to_do(said: dict[str, Any]) -> None:
    assert processing_of(TransformOptions(content_type="image/png", **said)) is None


# --- Properties ----------------------------------------------------------------------------------

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=4), below),
    max_leaves=10,
)  # fmt: skip


@given(st.lists(_VALUES, min_size=1, max_size=5), st.booleans())
def test_what_is_joined_is_both(values: list[Any], ascii_only: bool) -> None:
    lines = b"".join(json.dumps(each, ensure_ascii=ascii_only).encode() + b"\n" for each in values)
    of = Processed("application/jsonlines", join_source="Input")
    if any(isinstance(each, dict) and "SageMakerOutput" in each for each in values):
        return
    joined = [json.loads(line) for line in of.answer(lines, lines).split(b"\n")[:-1]]
    assert joined == [
        {**each, "SageMakerOutput": each}
        if isinstance(each, dict)
        else {"SageMakerInput": each, "SageMakerOutput": each}
        for each in values
    ]
