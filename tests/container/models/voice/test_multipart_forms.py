"""partway.container.models.voice.multipart_forms: forms of clients, and bodies that are none."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.errors import ModelError
from partway.container.models.voice.multipart_forms import read_form
from partway.protocol.limits import MIB

TYPE = "multipart/form-data; boundary=b"
FILE = b'--b\r\nContent-Disposition: form-data; name="file"\r\n\r\n'


def part(name: str, content: bytes, *lines: str) -> bytes:
    head = "\r\n".join([f'Content-Disposition: form-data; name="{name}"', *lines])
    return b"--b\r\n" + head.encode() + b"\r\n\r\n" + content + b"\r\n"


@given(st.binary(max_size=40).map(lambda data: data.replace(b"--b", b"")), st.text(max_size=20))
def test_contents_are_what_was_sent(file, text):
    body = part("file", file, "Content-Type: audio/wav") + part("prompt", text.encode()) + b"--b--"
    form = read_form(TYPE, body)
    assert form.file == file
    assert form.all("prompt") == [text]


def test_a_file_is_not_copied():
    body = FILE + b"x" * 4 * MIB + b"\r\n--b--"
    tracemalloc.start()
    try:
        form = read_form(TYPE, body)
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()
    assert len(form.file) == 4 * MIB


def test_each_form_of_a_head_is_read():
    heads = (
        b'CONTENT-DISPOSITION:form-data;name=file;filename="a; name=x\xc3\xa4.wav"',
        b'Content-Type: audio/wav\r\nContent-Disposition: form-data; filename="a"; name="file"',
        b'Content-Disposition: form-data;\r\n name="file"',
        b'no colon here\r\nContent-Disposition: form-data; name="file"',
    )
    for head in heads[:3]:
        assert read_form(TYPE, b"--b\r\n" + head + b"\r\n\r\nx\r\n--b--\r\n").file == b"x"
    with pytest.raises(ModelError, match="a part of the form has no name"):
        read_form(TYPE, b"--b\r\n" + heads[3] + b"\r\n\r\nx\r\n--b--")
    quoted = 'multipart/form-data; charset=utf-8; boundary="a b:c"'
    body = FILE.replace(b"--b", b"\r\n--a b:c") + b"x\r\n--a b:c--"
    assert read_form(quoted, body).file == b"x"
    assert read_form(TYPE, b"--b--").file is None


@pytest.mark.parametrize(
    ("content_type", "body", "says"),
    [
        ("multipart/form-data", b"x", "must have a boundary of 1 to 70 ASCII characters"),
        (f"{TYPE}{'x' * 70}", b"x", "must have a boundary of 1 to 70 ASCII characters"),
        (TYPE, b"", "it must begin with the boundary"),
        (TYPE, b"preamble\r\n" + FILE + b"x\r\n--b--", "it must begin with the boundary"),
        (TYPE, FILE + b"x", "it ends within a part"),
        (TYPE, b"--b\r\nA: b\r\n--b--", "a part's headers have no end"),
        (TYPE, b"--b\r\nA: " + b"b" * 2048 + b"\r\n\r\nx\r\n--b--", "have no end"),
        (TYPE, b"--b\r\nA\0: b\r\n\r\nx\r\n--b--", "a part of the form has no name"),
    ],
)
def test_a_body_that_is_no_form_is_named(content_type, body, says):
    with pytest.raises(ModelError, match=says) as caught:
        read_form(content_type, body)
    assert caught.value.status == 400


@given(st.text(st.sampled_from("name*='\";=%0\r\n :\0xutf-8Content-Disposition"), max_size=200))
def test_any_head_is_read_or_refused(head):
    disposition = f"Content-Disposition: form-data; {head}"
    for each in (head, disposition):
        body = b"--b\r\n" + each.encode() + b"\r\n\r\nx\r\n--b--"
        try:
            read_form(TYPE, body)
            read_form(f"multipart/form-data; {head}", body)
        except ModelError as error:
            assert error.status == 400  # noqa: PT017


@pytest.mark.parametrize(
    "body",
    [
        b"\n" * (4 * MIB),
        FILE + b"\r\n--" * MIB,
        FILE + b"\n" * (4 * MIB),
        b"--b\r\n" + b"a: b\r\n" * MIB,
        b"--b--" + b"\n" * (4 * MIB),
    ],
)
def test_a_large_body_is_read_in_little_time(body):
    before = time.process_time()
    with suppress(ModelError):
        read_form(TYPE, body)
    assert time.process_time() - before < 1
