"""``conformance.toml``: what it may say, and what is said of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from partway.gateway.workbench.conformance.plan import AskedWrongly, Plan
from partway.gateway.workbench.testing.container_file import read_plan
from tests.gateway.configuration.documents import TOO_DEEP, as_toml, taken_or_refused, with_any


@pytest.fixture
def refused(tmp_path):
    """What is said of a file, line by line, without the file's name."""

    def read(text: str) -> list[str]:
        path = tmp_path / "conformance.toml"
        path.write_text(text)
        with pytest.raises(AskedWrongly) as caught:
            read_plan(path)
        lines = str(caught.value).splitlines()
        assert all(line.startswith("conformance.toml: ") for line in lines)
        return [line.removeprefix("conformance.toml: ") for line in lines]

    return read


KEYS = [
    "command", "url", "image", "env", "model_dir", "cwd", "path", "query", "probe", "fast", "only",
]  # fmt: skip
STRING = "a string without NUL"


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ("command = ['a', 'b']", "command", "an array of 2", STRING),
        ('command = "a\\u0000b"', "command", r"'a\x00b'", STRING),
        ("url = 1", "url", "the number 1", STRING),
        ("command = 'a'\nfast = 'yes'", "fast", "the string 'yes'", "true or false"),
        ("command = 'a'\nenv = []", "env", "an empty array", "a table"),
        ("command = 'a'\nenv = { A = 1 }", "env.A", "the number 1", STRING),
        ('command = "a"\nenv = { A = "a\\u0000b" }', "env.A", r"'a\x00b'", STRING),
        (
            'command = "a"\nenv = { "A=B" = "c" }',
            "env.'A=B'",
            "the name 'A=B'",
            "a variable's name, without = and NUL",
        ),
        ("command = 'a'\nonly = 'ping'", "only", "the string 'ping'", "an array of strings"),
        ("command = 'a'\nonly = ['ping', 1]", "only#2", "the number 1", STRING),
        ("command = 'a'\ncwd = 'b'", "cwd", "'b'", "an existing folder, relative to this file"),
    ],
)
def test_a_wrong_value_is_named_with_its_place(refused, text, place, found, wanted):
    assert refused(text) == [f"{place}: {found} was given; it must be {wanted}"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("comand = 'a'", "comand: this key is unknown; the nearest known one is command"),
        ("command = 'a'\nx = 1\n", f"x: this key is unknown; it must be one of {', '.join(KEYS)}"),
        ("fast = true", "exactly one of command, url, image must be given; none was"),
        (
            "command = 'a'\nurl = 'b'",
            "exactly one of command, url, image must be given; command and url were",
        ),
        (
            "url = 'http://a'\ncwd = '.'",
            "cwd: it was given with url; it must be given with command, which runs in this folder",
        ),
        ("command = ", "this is not TOML: line 1, at the end: Invalid value"),
        (f"command = {'[' * 20_000}", TOO_DEEP),
        (f"command = {'9' * 5000}", "this is not TOML: a number has too many digits"),
        ("command = ''", "command: there is no program in it"),
        (
            "command = 'a'\nonly = ['pong']",
            "only: there is no check 'pong'; partway conform --matrix lists all checks",
        ),
        (
            "command = 'a'\nonly = ['image.label']",
            "only: image.label can be checked only with image",
        ),
        ("image = 'a'\nonly = ['ping']", "only: ping can be checked only with url or command"),
        ("url = 'ftp://a'", "url: 'ftp://a' is not a container's URL: it must begin with http://"),
        (
            "url = 'http://a'\nmodel_dir = '.'",
            "env and model_dir are for a container started with command",
        ),
    ],
)
def test_what_else_is_said_of_the_file(refused, text, said):
    assert refused(text) == [said]


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        (
            "command = 'a'\nprobe = 'b'",
            "probe ",
            "b: there is no such file; it must be a file or one of echo, chat, speech",
        ),
        (
            "command = 'a'\nprobe = 'conformance.toml'",
            "probe ",
            "this key is missing; it must be an array of one or more messages to send",
        ),
        ("command = 'a'\nmodel_dir = 'b'", "model_dir ", "b: there is no such folder"),
        ("command = 'a'\npath = 'é'", "path or query: ", ""),
    ],
)
def test_what_is_said_of_other_files(refused, text, begins, ends):
    lines = refused(text)
    assert lines[0].startswith(begins)
    assert lines[-1].endswith(ends)


def test_what_a_file_names_is_beside_it(tmp_path):
    (tmp_path / "probe.toml").write_text("messages = ['hello']")
    (tmp_path / "weights").mkdir()
    file = tmp_path / "conformance.toml"
    file.write_text(
        "command = 'python serve.py'\nprobe = 'probe.toml'\nmodel_dir = 'weights'\n"
        "env = { A = 'b' }\npath = '/v1/listen'\nquery = 'a=b'\nfast = true\nonly = ['ping']\n"
    )
    plan = read_plan(file)
    assert plan.command == ("python", "serve.py")
    assert plan.probe.messages == ("hello",)
    assert str(plan.target) == "/v1/listen?a=b"
    assert plan.checks[-1].id.startswith("ping.")
    question = plan.question
    assert (question.cwd, question.model_dir) == (tmp_path, tmp_path / "weights")
    assert (question.env, question.fast) == ({"A": "b"}, True)


def test_a_file_that_never_ends_is_read_no_further_than_it_may(tmp_path):
    path = tmp_path / "conformance.toml"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes up nothing
    with pytest.raises(AskedWrongly, match="must have at most 1048576 bytes"):
        read_plan(path)


@settings(deadline=None)
@given(with_any({"command": "a"}, KEYS))
def test_whatever_a_file_says_it_is_taken_or_refused(tmp_path_factory, table):
    path = tmp_path_factory.getbasetemp() / "conformance.toml"
    path.write_text(as_toml(table), "utf-8")
    found = taken_or_refused(lambda: read_plan(path), AskedWrongly, path.name)
    assert found is None or isinstance(found, Plan)
