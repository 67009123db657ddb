from __future__ import annotations

import logging
import os

import pytest
from hypothesis import given

from partway.gateway.access.principals import Principals, PrincipalsError
from partway.gateway.limits import MAX_KEYS_PER_PRINCIPAL, MAX_PRINCIPALS, MAX_PRINCIPALS_BYTES
from partway.protocol.signatures.verification import Credentials
from tests.gateway.configuration.documents import TOO_DEEP, as_toml, taken_or_refused, with_any

TOKEN = "0123456789abcdef"
ARN = "arn:aws:sagemaker:us-east-1:000000000000:endpoint/"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"

FULL = f"""
[[principals]]
name = "chat-backend"
actions = ["sagemaker:InvokeEndpointWithBidirectionalStream", "SageMaker:describe*"]
resources = ["arn:aws:sagemaker:*:*:endpoint/chat-*", "{ARN}echo"]
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


@pytest.fixture
def refused(write, clock):
    """What is said of a file, line by line, without the file's name."""

    def read(text: str | bytes) -> list[str]:
        path = write(text)
        with pytest.raises(PrincipalsError) as caught:
            Principals(path, clock)
        assert SECRET not in str(caught.value)
        assert TOKEN[1:] not in str(caught.value)
        lines = str(caught.value).splitlines()
        assert all(line.startswith(f"{path}: ") for line in lines)
        return [line.removeprefix(f"{path}: ") for line in lines]

    return read


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


BIDIRECTIONAL = "sagemaker:InvokeEndpointWithBidirectionalStream"


@pytest.mark.parametrize(
    ("action", "resource", "allowed"),
    [
        (BIDIRECTIONAL, ARN + "echo", True),
        (BIDIRECTIONAL, ARN + "chat-", True),
        ("sagemaker:DescribeEndpoint", ARN + "chat-de", True),
        (BIDIRECTIONAL, ARN + "chat", False),
        (BIDIRECTIONAL, ARN + "echo2", False),
        (BIDIRECTIONAL, "*", False),
        ("sagemaker:InvokeEndpoint", ARN + "echo", False),
    ],
)
def test_what_is_allowed(write, clock, action, resource, allowed):
    principals = Principals(write(FULL), clock)
    assert principals.by_name("chat-backend").policy.allows(action, resource) is allowed


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (BIDIRECTIONAL, True),
        ("sagemaker:InvokeEndpoint", True),
        ("sagemaker:InvokeEndpointAsync", True),
        ("sagemaker:InvokeEndpointWithResponseStream", True),
        ("sagemaker:CreateModel", False),
        ("sagemaker:DescribeEndpoint", False),
        ("logs:GetLogEvents", False),
    ],
)
def test_who_is_not_told_otherwise_may_invoke_everywhere(write, clock, action, allowed):
    policy = Principals(write(FULL), clock).by_name("operator").policy
    assert policy.allows(action, ARN + "any") is allowed


KEY = '[[principals]]\nname = "a"\n[[principals.keys]]\naccess_key_id = "K"\n'


NAME = "1 to 128 letters, digits, spaces and . _ @ : / + = , - with a letter or digit first"
TWICE = "principal 'a' has the same one; remove one of the two"
TABLES = "1 to 1024 tables, each under [[principals]]"
TEXT = "a string that is not empty"
ID = "1 to 128 letters, digits and _ . = -"
ACTION = (
    "* for all, or a service and its action with * and ? for wildcards, such as "
    "sagemaker:InvokeEndpoint*"
)
ACTIONS = "an array of 1 to 128 patterns; leave the key out for sagemaker:InvokeEndpoint*"
RESOURCE = (
    "* for all, or an ARN of six parts and at most 512 characters, SageMaker's in lower case, "
    "with * and ? for wildcards, such as arn:aws:sagemaker:*:*:endpoint/chat-*"
)
RESOURCES = "an array of 1 to 128 patterns; leave the key out for *"
MOMENT = "a date and time with its zone, such as 2026-12-01T00:00:00Z"
BEARER = "16 or more of A-Z a-z 0-9 . _ ~ + / - and = at the end; openssl rand -hex 32 makes one"
GOOD_KEY = KEY + "secret_access_key = 's'\n"


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ("principals = []", "principals", "an empty array", TABLES),
        ("principals = 1", "principals", "a number", TABLES),
        ("[principals]\nname = 'a'", "principals", "a table", TABLES),
        ("[[principals]]\n" * (MAX_PRINCIPALS + 1), "principals", "an array of 1025", TABLES),
        ("principals = [1]", "principals#1", "a number", "a table"),
        ("[[principals]]\nname = ''", "principals#1.name", "an empty string", NAME),
        ("[[principals]]\nname = 'a\\nb'", "principals#1.name", "a string", NAME),
        ('[[principals]]\nname = "a\\u001b"', "principals#1.name", "a string", NAME),
        (one("x" * 129), "principals#1.name", "a string", NAME),
        (one("a", TOKEN[1:]), "principals#1.tokens#1", "a string", BEARER),
        (one("a", TOKEN + " "), "principals#1.tokens#1", "a string", BEARER),
        (one("a", TOKEN + "é"), "principals#1.tokens#1", "a string", BEARER),
        (one("a", TOKEN + "\\n"), "principals#1.tokens#1", "a string", BEARER),
        (one() + "actions = 'x'", "principals#1.actions", "a string", ACTIONS),
        (one() + "actions = []", "principals#1.actions", "an empty array", ACTIONS),
        (one() + f"actions = {['*'] * 129}", "principals#1.actions", "an array of 129", ACTIONS),
        (one() + "actions = ['InvokeEndpoint']", "principals#1.actions#1", "a string", ACTION),
        (one() + "actions = ['*', 1]", "principals#1.actions#2", "a number", ACTION),
        (one() + "resources = []", "principals#1.resources", "an empty array", RESOURCES),
        (one() + "resources = ['']", "principals#1.resources#1", "an empty string", RESOURCE),
        (one() + "resources = ['chat-*']", "principals#1.resources#1", "a string", RESOURCE),
        (
            one() + "keys = 1",
            "principals#1.keys",
            "a number",
            "at most 8 tables, each under [[principals.keys]]",
        ),
        (
            one() + f"keys = [{'{}, ' * (MAX_KEYS_PER_PRINCIPAL + 1)}]",
            "principals#1.keys",
            "an array of 9",
            "at most 8 tables, each under [[principals.keys]]",
        ),
        (GOOD_KEY.replace('"K"', '"a/b"'), "principals#1.keys#1.access_key_id", "a string", ID),
        (
            KEY + "secret_access_key = ''",
            "principals#1.keys#1.secret_access_key",
            "an empty string",
            TEXT,
        ),
        (KEY + "secret_access_key = 1", "principals#1.keys#1.secret_access_key", "a number", TEXT),
        (
            GOOD_KEY + "session_token = ''",
            "principals#1.keys#1.session_token",
            "an empty string",
            TEXT,
        ),
        (GOOD_KEY + "expires = 2026-12-01", "principals#1.keys#1.expires", "a date", MOMENT),
        (
            GOOD_KEY + "expires = 2026-12-01T00:00:00",
            "principals#1.keys#1.expires",
            "a date and time",
            MOMENT,
        ),
        (GOOD_KEY + "expires = 'never'", "principals#1.keys#1.expires", "a string", MOMENT),
    ],
)
def test_a_wrong_value_is_named_with_its_place_and_never_shown(refused, text, place, found, wanted):
    assert refused(text) == [f"{place}: {found} was given; it must be {wanted}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"principals: this key is missing; it must be {TABLES}"),
        ("a = 1\n" + one(), "a: this key is unknown; it must be one of principals"),
        (
            "[[principals]]\ntokens = []",
            f"principals#1.name: this key is missing; it must be {NAME}",
        ),
        (
            "[[principals]]\nname = 'a'",
            "principals#1: this principal has no keys and no tokens; it must have at least one",
        ),
        (
            one() + "token = 'x'",
            "principals#1.token: this key is unknown; the nearest known one is tokens",
        ),
        (
            one() + f"'{SECRET}' = 'x'",
            (
                "principals#1: this has an unknown key, which is not shown; "
                "it must be one of name, actions, resources, tokens, keys"
            ),
        ),
        (
            one() + one("a", TOKEN + "0"),
            "principals#2.name: 'a' is another principal's name too; each must have its own",
        ),
        (
            one() + one("b"),
            f"principals#2.tokens#1: {TWICE}",
        ),
        (
            f'[[principals]]\nname = "a"\ntokens = ["{TOKEN}", "{TOKEN}"]',
            f"principals#1.tokens#2: {TWICE}",
        ),
        (
            GOOD_KEY + GOOD_KEY.replace('"a"', '"b"'),
            f"principals#2.keys#1.access_key_id: {TWICE}",
        ),
        (KEY, f"principals#1.keys#1.secret_access_key: this key is missing; it must be {TEXT}"),
        (
            GOOD_KEY + "secret = ''",
            (
                "principals#1.keys#1.secret: this key is unknown; "
                "it must be one of access_key_id, secret_access_key, session_token, expires"
            ),
        ),
        (" " * (MAX_PRINCIPALS_BYTES + 1), "this file must have at most 262144 bytes"),
        (b"\xff", "this is not TOML: line 1 has a byte that is not UTF-8"),
        (f"secret = '{SECRET}\n", "this is not TOML: line 2, at the end"),
        (f"x = 1\n{SECRET}", "this is not TOML: line 2, column 14"),
        ("x = " + "[" * 5000, TOO_DEEP),
    ],
)
def test_what_else_is_said_of_the_file(refused, text, said):
    assert refused(text) == [said]


def test_each_fault_has_its_line(refused):
    assert refused(
        one() + "resources = 1\n[[principals]]\n[[principals]]\nname = 1\nnam = 1\n"
    ) == [
        f"principals#1.resources: a number was given; it must be {RESOURCES}",
        f"principals#2.name: this key is missing; it must be {NAME}",
        f"principals#3.name: a number was given; it must be {NAME}",
        "principals#3.nam: this key is unknown; the nearest known one is name",
    ]


PRINCIPAL = {"name": "a", "tokens": [TOKEN]}
ACCESS_KEY = {"access_key_id": "K", "secret_access_key": "s"}


@given(
    with_any(PRINCIPAL, ["name", "actions", "resources", "tokens", "keys"]),
    with_any(ACCESS_KEY, ["access_key_id", "secret_access_key", "session_token", "expires"]),
)
def test_whatever_a_file_says_it_is_taken_or_refused(tmp_path_factory, principal, key):
    path = tmp_path_factory.getbasetemp() / "principals.toml"
    for table in (principal, PRINCIPAL | {"keys": [key]}):
        path.write_text(as_toml({"principals": [table]}), "utf-8")
        path.chmod(0o600)
        found = taken_or_refused(lambda: Principals(path, Clock()), PrincipalsError, path)
        assert found is None or len(found) == 1


def test_no_file(tmp_path, clock):
    with pytest.raises(PrincipalsError, match=r"nowhere: cannot be read: No such file"):
        Principals(tmp_path / "nowhere", clock)


def test_no_regular_file(tmp_path, clock):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(PrincipalsError, match="it must be a regular file"):
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
        f"principals reloaded file={write(one('third'))} principals=1"
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


@pytest.mark.parametrize("broken", ["principals = 1", f"secret = '{SECRET}", b"\xff", None])
def test_a_broken_file_changes_nothing(write, clock, caplog, broken):
    path = write(one("first"))
    principals = Principals(path, clock)
    write(broken) if broken is not None else path.unlink()
    for _ in range(3):
        clock.now += 1
        assert principals.by_token(TOKEN).name == "first"
    (record,) = caplog.records  # said once
    assert record.levelno == logging.ERROR
    assert str(record.msg).startswith("the principals were not reloaded, the earlier ones stay ")
    assert record.msg.fields["reason"].startswith(f"{path}: ")
    assert record.exc_info is None
    assert SECRET not in caplog.text
    write(one("mended"))
    clock.now += 1
    assert principals.by_token(TOKEN).name == "mended"


@pytest.mark.parametrize("emptied", ["", "\n# nobody\n", "principals = []"])
def test_an_emptied_file_leaves_nobody(write, clock, caplog, emptied):
    """But not at once: somebody may be writing it in place."""
    principals = Principals(write(one("first")), clock)
    write(emptied)
    clock.now += 1
    assert principals.by_token(TOKEN).name == "first"
    clock.now += 1
    assert principals.by_token(TOKEN) is None
    assert principals.by_name("first") is None
    assert len(principals) == 0
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "every request is refused" in caplog.text
    write(one("second"))
    clock.now += 1
    assert principals.by_token(TOKEN).name == "second"


def test_a_file_that_is_being_written_leaves_who_is_there(write, clock, caplog):
    principals = Principals(write(one("first")), clock)
    for _ in range(3):
        write("")
        clock.now += 1
        assert principals.by_token(TOKEN).name == "first"
        write(one("first"))
        clock.now += 1
        assert principals.by_token(TOKEN).name == "first"
    assert caplog.records == []


@pytest.mark.parametrize(
    ("mode", "verbs"),
    [
        (0o600, []),
        (0o400, []),
        (0o640, ["read"]),
        (0o604, ["read"]),
        (0o620, ["write"]),
        (0o664, ["read and write"]),
    ],
)
def test_others_who_can_use_it(write, clock, caplog, mode, verbs):
    path = write(one())
    path.chmod(mode)
    Principals(path, clock)
    assert [record.getMessage() for record in caplog.records] == [
        f"users other than its owner can {verb} secrets: chmod 600 file={path}" for verb in verbs
    ]
    assert all(record.levelno == logging.WARNING for record in caplog.records)


@pytest.mark.parametrize("mode", [0o622, 0o666, 0o602])
def test_a_file_that_anybody_may_write(write, clock, caplog, mode):
    """Whoever writes a principal into it is one."""
    path = write(one("mine"))
    path.chmod(mode)
    why = (
        f"{path}: anybody on this machine can write to this file (mode {mode:04o}), and so add a "
        "key; let only its owner do so: chmod 600"
    )
    with pytest.raises(PrincipalsError) as caught:
        Principals(path, clock)
    assert str(caught.value) == why
    path.chmod(0o600)
    principals = Principals(path, clock)
    path.chmod(mode)
    clock.now += 1
    assert len(principals) == 1
    assert "the principals were not reloaded, the earlier ones stay" in caplog.text
    assert "chmod 600" in caplog.text


def test_nothing_secret_is_shown(write, clock):
    principals = Principals(write(FULL), clock)
    shown = repr([principals, principals.by_access_key("ASIAEXAMPLE"), principals.by_token(TOKEN)])
    for secret in (SECRET, TOKEN, "the/session+token=="):
        assert secret not in shown
