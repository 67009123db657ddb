"""Probes from files."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings

from partway.gateway.configuration.messages import SettingsError
from partway.gateway.fleet.endpoint import container_address
from partway.gateway.network.dialling import Address
from partway.gateway.workbench.conformance import probes
from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.probes import BUILT_IN, Probe, load_probe
from partway.gateway.workbench.conformance.run import Run
from partway.gateway.workbench.conformance.subject import Subject
from partway.gateway.workbench.conformance.trial import Trial
from partway.gateway.workbench.conformance.verdict import Broken, Verdict
from partway.gateway.workbench.recording.recording import RecordingError
from tests.frame_factory import TEXT, frame
from tests.gateway.configuration.documents import TOO_DEEP, as_toml, taken_or_refused, with_any
from tests.gateway.workbench.recording.recordings import (
    GRANTED,
    HEAD,
    OVER,
    both_close,
    came,
    said,
    whole,
)
from tests.gateway.workbench.recording.recordings import (
    written as recorded,
)
from tests.processes import running
from tests.wire.peers import switching


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


MESSAGES = "an array of one or more messages to send"
MESSAGE = 'a string, { hex = "00 ff" } or { file = "audio.pcm" }'
HEX = "bytes in hexadecimal, such as 00 ff"
FILE = "a file in the folder of the probe"
PATTERN = "a regular expression, as Python has them"
REPLIES = "a whole number of messages, 0 or more"
SECONDS = "a finite number of seconds above 0 and at most 600"
A = 'messages = ["a"]\n'
NAMED = '{ file = "a" }, '


@pytest.mark.parametrize(
    ("text", "place", "found", "wanted"),
    [
        ("messages = []", "messages", "an empty array", MESSAGES),
        ("messages = 'a'", "messages", "the string 'a'", MESSAGES),
        ("messages = [1]", "messages#1", "the number 1", MESSAGE),
        ('messages = ["a", { hex = "0" }]', "messages#2.hex", "'0'", HEX),
        ("messages = [{ hex = 1 }]", "messages#1.hex", "the number 1", HEX),
        ('messages = [{ file = "none" }]', "messages#1.file", "'none'",
         FILE + " (No such file or directory)"),
        ('messages = [{ file = "." }]', "messages#1.file", "'.'", FILE + " (Is a directory)"),
        ('messages = [{ file = "../hello.pcm" }]', "messages#1.file", "'../hello.pcm'", FILE),
        ('messages = [{ file = "/etc/passwd" }]', "messages#1.file", "'/etc/passwd'", FILE),
        (A + "name = 1", "name", "the number 1", "a string"),
        (A + 'expect = "("', "expect", "'('",
         PATTERN + " (missing ), unterminated subpattern at position 0)"),
        (A + "expect = 1", "expect", "the number 1", PATTERN),
        (A + "replies = true", "replies", "the boolean true", REPLIES),
        (A + "replies = -1", "replies", "-1", REPLIES),
        (A + "timeout = 0", "timeout", "0", SECONDS),
        (A + "timeout = 601", "timeout", "601", SECONDS),
        (A + "timeout = inf", "timeout", "inf", SECONDS),
        (A + f"timeout = {'9' * 400}", "timeout", "a number of very many digits", SECONDS),
        (A + "echo = 1", "echo", "the number 1", "true or false"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_place(
    tmp_path: Path, text: str, place: str, found: str, wanted: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_probe(path)
    assert str(caught.value) == f"{path}: {place}: {found} was given; it must be {wanted}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", f"messages: this key is missing; it must be {MESSAGES}"),
        (A + 'expected = "b"', "expected: this key is unknown; the nearest known one is expect"),
        ("messages = [{}]",
         "messages#1: neither hex nor file was given; it must be one of the two"),
        ("messages = ['a', { hex = '', file = '' }]",
         "messages#2: hex and file were given; it must be one of the two"),
        ("messages = [{ hax = '' }]",
         "messages#1.hax: this key is unknown; the nearest known one is hex"),
        ("messages = ", "this is not TOML: line 1, at the end: Invalid value"),
        (f"messages = {'[' * 20_000}", TOO_DEEP),
        (A + f"replies = {'9' * 5000}", "this is not TOML: a number has too many digits"),
    ],
)  # fmt: skip
def test_what_else_is_said_of_the_file(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        load_probe(path)
    assert str(caught.value) == f"{path}: {said}"


@pytest.mark.parametrize("pattern", ["a{99999999999999999999}", "(" * 5000 + ")" * 5000])
def test_a_pattern_that_is_too_much_for_python(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(SettingsError, match=f"it must be {PATTERN} "):
        load_probe(written(tmp_path, f'{A}expect = "{pattern}"'))


def test_a_pattern_of_megabytes_is_not_compiled(tmp_path: Path) -> None:
    began = time.process_time()
    with pytest.raises(SettingsError) as caught:
        load_probe(written(tmp_path, f"{A}expect = '{'[a-z]' * 800_000}'"))
    assert "(it has 4000000 characters; there must be at most 1000)" in str(caught.value)
    assert time.process_time() - began < 2
    load_probe(written(tmp_path, f"{A}expect = '{'[a-z]' * 200}'"))


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="this is a pipe; it must be a regular file"):
        load_probe(tmp_path / "pipe")
    with pytest.raises(SettingsError, match=r"#1\.file: 'pipe' .* \(this is a pipe; it must be a "):
        load_probe(written(tmp_path, 'messages = [{ file = "pipe" }]'))


def test_files_that_are_named_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "MAX_FILES_BYTES", 25)
    (tmp_path / "a").write_bytes(bytes(10))
    assert len(load_probe(written(tmp_path, f"messages = [{NAMED * 2}]")).messages) == 2
    with pytest.raises(SettingsError, match=r"messages#3\.file: .*more than 5 bytes"):
        load_probe(written(tmp_path, f"messages = [{NAMED * 3}]"))


def test_each_message_that_cannot_be_read_has_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, 'messages = [{ file = "a" }, "b", { file = "../c" }]')
    with pytest.raises(SettingsError) as caught:
        load_probe(path)
    places = [line.split(": ")[1] for line in str(caught.value).splitlines()]
    assert places == ["messages#1.file", "messages#3.file"]


@settings(deadline=None)
@given(with_any({"messages": ["a"]}, ["messages", "name", "expect", "replies", "echo", "timeout"]))
def test_whatever_a_file_says_it_is_taken_or_refused(tmp_path_factory, table) -> None:
    path = tmp_path_factory.getbasetemp() / "probe.toml"
    path.write_text(as_toml(table), "utf-8")
    found = taken_or_refused(lambda: load_probe(path), SettingsError, path)
    assert found is None or isinstance(found, Probe)


def test_files_that_never_end_are_read_no_further_than_they_may(tmp_path: Path) -> None:
    for name in ("endless.toml", "endless.pcm"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)  # it takes up nothing
    with pytest.raises(SettingsError, match="must have at most 8388608 bytes"):
        load_probe(tmp_path / "endless.toml")
    with pytest.raises(SettingsError, match=r"messages#1\.file: .*more than 8388608 bytes"):
        load_probe(written(tmp_path, 'messages = [{ file = "endless.pcm" }]'))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load_probe(tmp_path / "none.toml")


def test_those_that_ship() -> None:
    assert set(BUILT_IN) == {"echo", "chat", "speech"}
    assert all(probe.messages for probe in BUILT_IN.values())


# --- Of recordings --------------------------------------------------------------------------------


def test_a_recording_is_a_probe(tmp_path: Path) -> None:
    path = whole(
        tmp_path / "call.jsonl",
        said(0.1, "he", fin=False),
        said(0.2, "llo", frame="continuation"),
        came(0.3, "hi"),
        came(0.4, "how are you?"),
        said(1.0, b"AP8="),
        came(30.0, "b", fin=False),
        said(30.0, "unfinished", fin=False),
    )
    probe = load_probe(path)
    assert probe.messages == ("hello", b"\x00\xff")
    assert (probe.name, probe.expect, probe.replies, probe.echo) == ("call", "", 2, False)
    assert probe.timeout == 60.0


def test_a_recorded_echo_is_a_probe_of_echoes(tmp_path: Path) -> None:
    path = whole(
        tmp_path / "echo.jsonl",
        said(0.1, "hello"),
        came(0.2, "hel", fin=False),
        came(0.2, "lo", frame="continuation"),
        said(0.3, b"/w=="),
        came(0.4, b"/w=="),
        *both_close(0.5),
    )
    probe = load_probe(path)
    assert probe.echo
    assert (probe.messages, probe.replies, probe.timeout) == (("hello", b"\xff"), 2, 10.0)


@pytest.mark.parametrize(
    ("lines", "head", "reason"),
    [
        ([GRANTED, OVER], {}, "the recorded client sent no complete message"),
        (
            [GRANTED, said(0, "a", fin=False), OVER],
            {},
            "the recorded client sent no complete message",
        ),
        (
            [GRANTED, OVER],
            {"payloads": False},
            "the recording has no payloads, so a probe has nothing",
        ),
        ([said(0, b"/w==", frame="text")], {}, "the text message at 0 s is not UTF-8"),
        (["{}"], {}, ":2: the line must have one of"),
    ],
)
def test_a_recording_of_no_use(tmp_path: Path, lines, head, reason) -> None:
    path = recorded(tmp_path / "call.jsonl", *lines, head=HEAD | head)
    with pytest.raises(RecordingError, match=reason) as caught:
        load_probe(path)
    assert str(caught.value).startswith(f"{path}:")


def test_a_recording_has_the_bound_of_a_probe(tmp_path: Path, monkeypatch) -> None:
    path = whole(tmp_path / "call.jsonl", said(0, "a" * 1000))
    monkeypatch.setattr(probes, "MAX_PROBE_BYTES", 1000)
    with pytest.raises(RecordingError, match="more than 1000 bytes"):
        load_probe(path)


async def test_an_echo_passes_what_a_recording_of_it_asks(tmp_path: Path) -> None:
    path = whole(tmp_path / "echo.jsonl", said(0, "hello"), came(0.1, "hello"), *both_close(0.2))
    only = ["messages.answer", "streams.many"]
    with running("partway.container", "serve", "--port", "0", "--host", "127.0.0.1") as url:
        run = Run(ALL, load_probe(path), fast=True, only=only)
        report = await run.run(Subject(container_address(url)))
    found = {result.check.id: result.verdict for result in report.results}
    assert {found[each] for each in only} == {Verdict.PASS}
    assert report.probe == "echo"


@pytest.mark.parametrize("replies", [1, 8, 12, 13])
async def test_as_many_replies_as_a_probe_wants(replies: int) -> None:
    """Nothing is kept of them but the last, and all are counted."""
    probe = Probe("list", ("go",), replies=12, timeout=0.3)

    async def model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        writer.write(switching(request) + b"".join(frame(TEXT, b"x") for _ in range(replies)))
        await reader.read(-1)
        writer.close()

    async with await asyncio.start_server(model, "127.0.0.1", 0) as server:
        trial = Trial(Subject(Address(*server.sockets[0].getsockname())), probe)
        said = ""
        try:
            async with trial.stream() as peer:
                await trial.answered(peer, "asked")
        except Broken as broken:
            said = broken.what
    short = (
        f"asked: within 0.3 s {replies} replies came, the last was text 'x'; the probe expects 12"
    )
    assert said == (short if replies < 12 else "")
