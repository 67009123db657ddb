"""Probes from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.conformance.probes import BUILT_IN, ProbeError, load_probe


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "probe.toml"
    path.write_text(text)
    return path


def test_all_that_can_be_said(tmp_path: Path) -> None:
    (tmp_path / "hello.pcm").write_bytes(b"\x01\x02")
    probe = load_probe(
        written(
            tmp_path,
            'messages = ["start", { hex = "00 ff" }, { file = "hello.pcm" }]\n'
            'expect = "hel+o"\nreplies = 2\ntimeout = 30\necho = false\nname = "mine"\n',
        )
    )
    assert probe.messages == ("start", b"\x00\xff", b"\x01\x02")
    assert (probe.name, probe.expect, probe.replies, probe.timeout) == ("mine", "hel+o", 2, 30.0)


def test_what_need_not_be_said(tmp_path: Path) -> None:
    probe = load_probe(written(tmp_path, 'messages = ["hi"]'))
    assert (probe.name, probe.expect, probe.replies, probe.echo) == ("probe", "", 1, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "messages: a list of what to send is missing"),
        ("messages = []", "messages: a list of what to send is missing"),
        ("messages = [1]", r'messages\[0\]: use a string, \{ hex = "00 ff" \}'),
        ('messages = ["a", { hex = "0" }]', r"messages\[1\]: hex: "),
        ('messages = [{ file = "none" }]', r"messages\[0\]: file: .*No such file"),
        ('messages = ["a"]\nexpected = "b"', "expected: unknown; known are echo, expect,"),
        ('messages = ["a"]\nexpect = "("', "expect: "),
        ('messages = ["a"]\nexpect = 1', "expect: str is wanted, not int"),
        ('messages = ["a"]\nreplies = true', "replies: int is wanted, not bool"),
        ('messages = ["a"]\nreplies = -1', "replies is 0 or more"),
        ('messages = ["a"]\ntimeout = 0', "timeout over 0"),
        ('messages = ["a"]\ntimeout = inf', "timeout over 0"),
        ("messages = ", "Invalid value"),
    ],
)
def test_a_file_that_says_something_else(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ProbeError, match=reason) as caught:
        load_probe(written(tmp_path, text))
    assert str(caught.value).startswith(f"{tmp_path}/probe.toml: ")


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="No such file"):
        load_probe(tmp_path / "none.toml")


def test_those_that_ship() -> None:
    assert set(BUILT_IN) == {"echo", "chat", "speech"}
    assert all(probe.messages for probe in BUILT_IN.values())
