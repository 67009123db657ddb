from __future__ import annotations

import logging
import os
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from partway.gateway.access.principals import Principal, Principals, PrincipalsError
from partway.protocol.limits import MAX_KEYS_PER_PRINCIPAL, MAX_PRINCIPALS, MAX_PRINCIPALS_BYTES
from partway.protocol.sigv4 import Credentials

TOKEN = "0123456789abcdef"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

FULL = f"""
[[principals]]
name = "chat-backend"
operations = ["InvokeEndpointWithBidirectionalStream"]
endpoints = ["echo", "chat-*"]
tokens = ["{TOKEN}", "another.token-of~it+/=="]

[[principals.keys]]
access_key_id = "AKIDEXAMPLE"
secret_access_key = "{SECRET}"

[[principals.keys]]
access_key_id = "ASIAEXAMPLE"
secret_access_key = "other/{SECRET}"
session_token = "the/session+token=="
expires = 2026-12-01T00:00:00Z

[[principals]]
name = "operator"
tokens = ["fedcba9876543210"]
"""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def write(tmp_path):
    """Replaces the principals file as a whole, as its docs say."""
    path = tmp_path / "principals.toml"

    def write(text: str | bytes):
        new = tmp_path / "new"
        new.write_bytes(text if isinstance(text, bytes) else text.encode())
        new.chmod(0o600)
        new.replace(path)
        return path

    return write


def one(name: str = "a", token: str = TOKEN) -> str:
    return f'[[principals]]\nname = "{name}"\ntokens = ["{token}"]\n'


@pytest.mark.clause("2.4-3", "3-5")
def test_the_whole_format(write, clock):
    principals = Principals(write(FULL), clock)
    assert len(principals) == 2
    principal, key = principals.by_access_key("AKIDEXAMPLE")
    assert principal.name == "chat-backend"
    assert key.credentials == Credentials("AKIDEXAMPLE", SECRET)
    assert key.expires is None
    assert not key.expired(1e12)
    same, temporary = principals.by_access_key("ASIAEXAMPLE")
    assert same is principal
    assert temporary.credentials.session_token == "the/session+token=="
    assert temporary.expires == 1_796_083_200
    assert not temporary.expired(1_796_083_199.9)
    assert temporary.expired(1_796_083_200)
    assert principal.secrets(1_796_083_199) == [SECRET, "other/" + SECRET]
    assert principal.secrets(1_796_083_200) == [SECRET]
    assert principals.by_token(TOKEN) is principal
    assert principals.by_token("another.token-of~it+/==") is principal
    assert principals.by_name("chat-backend") is principal
    for unknown in ("", "AKID", "akidexample", TOKEN):
        assert principals.by_access_key(unknown) is None
    for unknown in ("", TOKEN[:-1], TOKEN + "0", TOKEN.upper(), "AKIDEXAMPLE", "\udcff"):
        assert principals.by_token(unknown) is None
    assert principals.by_name("nobody") is None


@pytest.mark.parametrize(
    ("operation", "endpoint", "allowed"),
    [
        ("InvokeEndpointWithBidirectionalStream", "echo", True),
        ("InvokeEndpointWithBidirectionalStream", "chat-", True),
        ("InvokeEndpointWithBidirectionalStream", "chat-de", True),
        ("InvokeEndpointWithBidirectionalStream", "chat", False),
        ("InvokeEndpointWithBidirectionalStream", "echo2", False),
        ("InvokeEndpointWithBidirectionalStream", "Echo", False),
        ("InvokeEndpointWithBidirectionalStream", "", False),
        ("InvokeEndpoint", "echo", False),
        ("InvokeEndpointWithBidirectionalStreams", "echo", False),
    ],
)
def test_what_is_allowed(write, clock, operation, endpoint, allowed):
    principals = Principals(write(FULL), clock)
    assert principals.by_name("chat-backend").allows(operation, endpoint) is allowed
    assert principals.by_name("operator").allows(operation, endpoint)


@given(
    st.lists(st.text("ab*-", min_size=1, max_size=8), min_size=1, max_size=3),
    st.text("ab-", max_size=10),
)
@example(["a*b*b"], "ab")
@example(["ab*ba"], "aba")
def test_patterns(patterns, name):
    as_regexes = [pattern.replace("*", ".*") for pattern in patterns]
    expected = any(re.fullmatch(regex, name) for regex in as_regexes)
    assert Principal("p", endpoints=tuple(patterns)).allows("x", name) is expected
    assert Principal("p", operations=tuple(patterns)).allows(name, "x") is expected


def test_a_pattern_of_many_stars_takes_no_time():
    assert not Principal("p", endpoints=("a*" * 60 + "b",)).allows("x", "a" * 8000)


KEY = '[[principals]]\nname = "a"\n[[principals.keys]]\naccess_key_id = "K"\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names nobody: add a [[principals]]"),
        ("principals = []", "names nobody"),
        ("a = 1\n" + one(), "the file: unknown member 'a'; known: principals"),
        ("principals = 1", "principals is a list of tables"),
        ("principals = [1]", "principals is a list of tables"),
        ("[principals]\nname = 'a'", "principals is a list of tables"),
        ("[[principals]]", "principal 1: name is missing, empty or no string"),
        ("[[principals]]\nname = ''", "principal 1: name is missing"),
        ("[[principals]]\nname = 'a\\nb'", "principal 1: name is up to 128"),
        ('[[principals]]\nname = "a\\u001b"', "principal 1: name is up to 128"),
        (one("x" * 129), "name is up to 128"),
        ("[[principals]]\nname = 'a'", "principal 'a': neither keys nor tokens"),
        (one() + "token = 'x'", "unknown member 'token'; known: endpoints, keys, name"),
        (one() + f"'{SECRET}' = 'x'", "unknown member that cannot be shown; known: endpoints"),
        (one() + one("a", TOKEN + "0"), "principal 2: there is another 'a'; give it another name"),
        (one() + one("b"), "principal 'b', token 1: principal 'a' has this token already"),
        (one("a", TOKEN[1:]), "principal 'a', token 1: a token is 16 or more of A-Z a-z 0-9"),
        (one("a", TOKEN + " "), "openssl rand -hex 32 makes one"),
        (one("a", TOKEN + "é"), "a token is 16 or more"),
        (one("a", TOKEN + "\\n"), "a token is 16 or more"),
        (one() + "operations = 'x'", "principal 'a': operations is a list of strings"),
        (one() + "operations = []", "operations is empty; leave it out for all"),
        (one() + "endpoints = []", "endpoints is empty"),
        (one() + "endpoints = ['']", "endpoints are up to 128 letters, digits, hyphens and *"),
        (one() + "endpoints = ['a?']", "endpoints are up to 128"),
        (one() + "endpoints = [1]", "endpoints is a list of strings"),
        (one() + "[[principals.keys]]\n", "principal 'a', key 1: access_key_id is missing"),
        (KEY.replace('"K"', '"a/b"'), "access_key_id is up to 128 letters"),
        (KEY, "principal 'a', key 1: secret_access_key is missing, empty or no string"),
        (KEY + "secret_access_key = ''", "secret_access_key is missing, empty"),
        (KEY + "secret_access_key = 's'\nsession_token = ''", "session_token is missing, empty"),
        (KEY + "secret_access_key = 's'\nsecret = ''", "key 1: unknown member 'secret'; known: ac"),
        (KEY + "secret_access_key = 's'\nexpires = 2026-12-01", "with its zone, as in 2026-12-01T"),
        (KEY + "secret_access_key = 's'\nexpires = 2026-12-01T00:00:00", "expires is a date and"),
        (KEY + "secret_access_key = 's'\nexpires = 'never'", "expires is a date and time with"),
        (
            KEY + "secret_access_key = 's'\n" + KEY.replace('"a"', '"b"') + "secret_access_key='t'",
            "principal 'b', key 1: principal 'a' has this access_key_id already; remove one",
        ),
        (
            '[[principals]]\nname = "a"\n'
            + "".join(
                f"[[principals.keys]]\naccess_key_id = '{n}'\nsecret_access_key = 's'\n"
                for n in range(MAX_KEYS_PER_PRINCIPAL + 1)
            ),
            "over 8 keys",
        ),
        ("[[principals]]\n" * (MAX_PRINCIPALS + 1), "over 1024 principals"),
        (" " * (MAX_PRINCIPALS_BYTES + 1), "over 262144 bytes"),
        (b"\xff", "not UTF-8"),
        (f"secret = '{SECRET}\n", "not TOML (at "),
        (f"x = 1\n{SECRET}", "not TOML (at line 2, column"),
        ("x = " + "[" * 5000, "not TOML"),
    ],
)
def test_what_is_refused(write, clock, text, reason):
    path = write(text)
    with pytest.raises(PrincipalsError) as caught:
        Principals(path, clock)
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)
    assert SECRET not in str(caught.value)
    assert TOKEN[1:] not in str(caught.value)


def test_no_file(tmp_path, clock):
    with pytest.raises(PrincipalsError, match=r"nowhere: cannot be read: No such file"):
        Principals(tmp_path / "nowhere", clock)


def test_no_regular_file(tmp_path, clock):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(PrincipalsError, match="not a regular file"):
            Principals(path, clock)


def test_it_is_read_again(write, clock, caplog):
    caplog.set_level(logging.INFO, "partway.principals")
    principals = Principals(write(one("first")), clock)
    write(one("second", TOKEN + "2"))
    clock.now += 0.9
    assert principals.by_token(TOKEN).name == "first"  # looked at a moment ago
    clock.now += 0.1
    assert principals.by_token(TOKEN) is None
    assert principals.by_token(TOKEN + "2").name == "second"
    assert [record.getMessage() for record in caplog.records] == [
        f"{write(one('third'))}: read again, 1 principals"
    ]


def test_written_in_place_at_the_same_size(write, clock):
    path = write(one("first"))
    principals = Principals(path, clock)
    path.write_text(one("other"))
    os.utime(path, ns=(0, 0))
    clock.now += 1
    assert principals.by_token(TOKEN).name == "other"


def test_a_clock_that_is_set_back(write, clock):
    principals = Principals(write(one("first")), clock)
    write(one("second"))
    clock.now -= 1e6
    assert principals.by_token(TOKEN).name == "second"


@pytest.mark.parametrize("broken", ["", f"secret = '{SECRET}", b"\xff", None])
def test_a_broken_file_changes_nothing(write, clock, caplog, broken):
    path = write(one("first"))
    principals = Principals(path, clock)
    write(broken) if broken is not None else path.unlink()
    for _ in range(3):
        clock.now += 1
        assert principals.by_token(TOKEN).name == "first"
    (record,) = caplog.records  # said once
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"{path}: ")
    assert record.getMessage().endswith("; the principals read before stay")
    assert record.exc_info is None
    assert SECRET not in caplog.text
    write(one("mended"))
    clock.now += 1
    assert principals.by_token(TOKEN).name == "mended"


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o640, 1), (0o604, 1), (0o400, 0)])
def test_others_who_can_read_it(write, clock, caplog, mode, warned):
    path = write(one())
    path.chmod(mode)
    Principals(path, clock)
    assert len(caplog.records) == warned
    assert all("chmod 600" in record.getMessage() for record in caplog.records)
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_nothing_secret_is_shown(write, clock):
    principals = Principals(write(FULL), clock)
    shown = repr([principals, principals.by_access_key("ASIAEXAMPLE"), principals.by_token(TOKEN)])
    for secret in (SECRET, TOKEN, "the/session+token=="):
        assert secret not in shown
