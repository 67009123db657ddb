"""JSON as strangers send it."""

from __future__ import annotations

import gc
import json

import pytest

from partway.protocol.json.strict import (
    NotJson,
    check_unicode,
    collector_paused,
    loads,
    parsed,
    string_of,
)


def test_all_numbers_are_floats_unless_another_kind_is_asked_for():
    assert parsed(b'{"a": [1, 2.5, true]}') == {"a": [1.0, 2.5, True]}
    assert parsed(b"[%b]" % (b"9" * 5000), len) == [5000]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"[NaN]", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b'{"a": 1, "\\u0061": 2}', "a member twice"),
        (b'["\xff"]', "not UTF-8"),
        (b"[1 2]", "Expecting ',' delimiter"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(NotJson, match=why):
        parsed(text)


def test_a_string_that_is_half_a_pair_is_no_unicode():
    for text in (rb'"\ud83d\ude00"', rb'"\\ud83d"', '"😀"'.encode()):
        check_unicode(text, parsed(text))
    for text in (rb'"\ud83d"', rb'{"a": ["\ude00\ud83d"]}', rb'{"\uDC00": 1}'):
        with pytest.raises(NotJson, match="half of a surrogate pair"):
            check_unicode(text, parsed(text))


def test_the_collector_is_paused_while_a_text_is_read():
    text = b"[%b]" % b",".join([b"[]"] * 100_000)
    looks = []
    gc.callbacks.append(lambda phase, _: looks.append(phase))
    try:
        found = loads(text)
    finally:
        gc.callbacks.pop()
    assert (len(found), gc.isenabled()) == (100_000, True)
    assert looks.count("start") <= 1  # behind it, where there would be a hundred


@pytest.mark.parametrize("text", ["", 'a"\\', "ü😀", "\ud800"])
def test_a_string_is_written_as_python_writes_it(text):
    assert string_of(text) == json.dumps(text).encode()


@pytest.fixture(autouse=True)
def collector():
    """Has the collector on behind each test."""
    gc.enable()
    yield
    gc.enable()


def test_the_collector_is_paused_in_the_block_alone():
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_after_a_fault_the_collector_is_on_again():
    with pytest.raises(ZeroDivisionError), collector_paused():
        1 / 0  # noqa: B018 (the fault)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    with collector_paused():
        pass
    assert not gc.isenabled()


def test_blocks_overlap():
    first, second = collector_paused(), collector_paused()
    first.__enter__()
    second.__enter__()
    second.__exit__(None, None, None)
    assert not gc.isenabled()
    first.__exit__(None, None, None)
    assert gc.isenabled()
