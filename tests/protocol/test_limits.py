from __future__ import annotations

import re
import time
from pathlib import Path
from types import ModuleType

import pytest

from partway.protocol import limits
from partway.protocol.limits import (
    ENDPOINT_NAME,
    INVOCATION_PATH,
    MAX_ENDPOINT_NAME,
    MAX_INVOCATION_PATH,
    MAX_QUERY_STRING,
    QUERY_STRING,
)


@pytest.mark.clause("1.3-3", "1.4-1", "4-7")
def test_the_numbers_of_the_contract():
    assert limits.MAX_PART_BYTES == 16_777_216
    assert limits.STALL_TIMEOUT == 300
    assert (limits.CONTAINER_PING_INTERVAL, limits.CONTAINER_PINGS_UNANSWERED) == (60, 5)
    assert limits.REFUSAL_BODY_BYTES == 2048
    assert (MAX_ENDPOINT_NAME, MAX_INVOCATION_PATH, MAX_QUERY_STRING) == (63, 100, 2048)


def test_the_numbers_of_the_rfc():
    assert limits.MAX_CONTROL_BYTES == 125
    assert limits.MAX_CLOSE_REASON_BYTES == 123


def test_numbers_that_depend_on_each_other():
    assert limits.WRITE_LOW_WATER < limits.WRITE_HIGH_WATER
    # The largest part as base64, with its names around it.
    largest = (limits.MAX_PART_BYTES + 2) // 3 * 4
    assert largest < limits.MAX_ENVELOPE_BYTES < largest + 128 * limits.KIB
    assert limits.MAX_ENVELOPE_FRAGMENTS * 16 * limits.KIB > limits.MAX_ENVELOPE_BYTES
    # A drain is over before the SIGKILL that comes 30 s after SIGTERM (clause 1.1-1).
    assert limits.SHUTDOWN_GRACE + limits.SHUTDOWN_SPREAD + limits.SHUTDOWN_HARD < 30


def test_every_limit_is_positive_and_says_what_it_is():
    check_limits(limits)


def check_limits(module: ModuleType) -> None:
    """Hold a module of limits to its form: each is ``Final``, and is over 0."""
    assert module.__file__ is not None
    text = Path(module.__file__).read_text("utf-8")
    names = re.findall(r"^([A-Z][A-Z0-9_]*): Final", text, re.MULTILINE)
    assert names
    borrowed = {"KIB", "MIB"} - set(names)
    assert {name for name in vars(module) if name.isupper()} - borrowed == set(names)
    for name in names:
        value = getattr(module, name)
        assert isinstance(value, re.Pattern) or value > 0, name


# The model's own patterns, as clause 4-7 has them, anchored.
MODEL_NAME = r"^[a-zA-Z0-9](-*[a-zA-Z0-9])*\Z"
MODEL_PATH = r"^[A-Za-z0-9\-._]+(?:/[A-Za-z0-9\-._]+)*\Z"


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (
            ENDPOINT_NAME,
            ["a", "A9", "a-b", "a--b", "0", "a" * 63],
            ["", "-", "-a", "a-", "a_b", "a.b", "a b", "ä", "a\n", "a/b", "a%2d"],
        ),
        (
            INVOCATION_PATH,
            ["a", "v1/listen", "v1/audio/speech/stream", "-", "_", ".a", "a..b", "..", "."],
            ["", "/", "/a", "a/", "a//b", "a?b", "a b", "a\n", "a%2fb", "a\\b", "ä", "a#b", "a;b"],
        ),
        (
            QUERY_STRING,
            ["a=b", "a=b&c=d", "a-b_c=1", "0=~._-", "a=%20%fF", "a=b&a=b"],
            ["", "a", "a=", "=a", "&", "a=b&", "&a=b", "a=b&&c=d", "_a=b", "-a=b", "a.b=c",
             "a=%2", "a=%zz", "a=b=c", "a=b c", "a=b;c=d", "a=ä", "a=b\n", "?a=b", "a=b+c",
             "a=b#c", "a=b/c"],
        ),
    ],
)  # fmt: skip
def test_patterns(pattern, good, bad):
    assert [text for text in good if not pattern.fullmatch(text)] == []
    assert [text for text in bad if pattern.fullmatch(text)] == []


@pytest.mark.clause("4-7")
@pytest.mark.parametrize(
    ("ours", "models"), [(ENDPOINT_NAME, MODEL_NAME), (INVOCATION_PATH, MODEL_PATH)]
)
def test_patterns_are_the_service_models(ours, models):
    for first in map(chr, range(0x180)):
        for text in (first, f"a{first}", f"{first}a", f"a{first}b", f"a/{first}/b"):
            assert bool(ours.fullmatch(text)) is bool(re.match(models, text)), text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (ENDPOINT_NAME, "a" + "-" * 20_000 + "!"),
        (ENDPOINT_NAME, "a-" * 20_000 + "!"),
        (INVOCATION_PATH, "a/" * 20_000 + "!"),
        (QUERY_STRING, "a=b&" * 10_000 + "!"),
        (QUERY_STRING, "a=" + "%20" * 20_000 + "!"),
        (QUERY_STRING, "a" * 40_000),
    ],
)
def test_patterns_take_no_exponential_time(pattern, text):
    began = time.process_time()
    assert pattern.fullmatch(text) is None
    assert time.process_time() - began < 1.0
