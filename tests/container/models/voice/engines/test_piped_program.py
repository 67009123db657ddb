"""partway.container.models.voice.engines.piped_program: text in, bytes out, and an end."""

from __future__ import annotations

import struct
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partway.container.errors import ModelError, SettingsRefused
from partway.container.models.voice.engines.piped_program import (
    PipedProgram,
    SampleBytes,
    one_line,
    program_at,
)


def soon() -> float:
    return time.monotonic() + 30


def run(code: str, text: str = "") -> tuple[bytes, bytes]:
    program = PipedProgram([sys.executable, "-c", code])
    output = errors = b""
    try:
        program.write(text, last=True)
        while not (received := program.receive(soon())).ended:
            output += received.output
            errors += received.errors
        assert program.status(soon()) == 0
    finally:
        program.kill()
    return output, errors


@given(st.text())
def test_a_line_has_no_command_and_no_line_end(text):
    line = one_line(text)
    assert line.encode().decode() == line
    assert len(line.splitlines()) <= 1
    assert "[[" not in line
    assert "]]" not in line
    assert line.isprintable() or not any(ord(each) < 32 for each in line)


def test_words_stay():
    assert one_line(" -v de <b>x</b>\tthe\x01 [[end]]\n") == "-v de <b>x</b> the  [ end ]"


@given(st.lists(st.binary(max_size=5)))
def test_samples_wherever_their_bytes_are_cut(pieces):
    joined = SampleBytes()
    samples = [sample for piece in pieces for sample in joined.feed(piece).tolist()]
    data = b"".join(pieces)
    assert samples == [each for (each,) in struct.iter_unpack("<h", data[: len(data) & ~1])]


def test_text_comes_back_with_errors_beside_it():
    code = "import sys; sys.stdout.write(sys.stdin.read() * 3); sys.stderr.write('é')"
    assert run(code, "grün\n") == ("grün\n".encode() * 3, "é".encode())


def test_much_output_beside_many_errors():
    code = "import os; [(os.write(1, b'a' * 5000), os.write(2, b'b' * 5000)) for _ in range(100)]"
    assert run(code) == (b"a" * 500_000, b"b" * 500_000)


def test_all_output_with_the_end_of_the_errors():
    code = "import os; os.write(1, b'a' * 9); os.write(2, b'b' * 500 + 'é\\n'.encode()); print('c')"
    program = PipedProgram([sys.executable, "-c", code])
    try:
        assert b"".join(program.outputs(30.0)) == b"aaaaaaaaac\n"
        assert program.said == "b" * 197 + "é"
    finally:
        program.kill()


def test_output_that_precedes_an_error_comes_first():
    """As Piper's audio precedes its mark."""
    code = "import os\nfor _ in range(50): os.write(1, b'a' * 60000); os.write(2, b'!')"
    program = PipedProgram([sys.executable, "-c", code])
    output = marks = 0
    try:
        while not (received := program.receive(soon())).ended:
            output += len(received.output)
            marks += len(received.errors)
            assert output >= marks * 60_000
    finally:
        program.kill()
    assert marks == 50


def test_the_environment_has_no_secrets(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    output, _ = run("import os; print(*sorted(os.environ), os.getcwd())")
    assert output == b"LC_ALL PATH /\n"


def test_a_silent_program_has_a_deadline_and_is_killed():
    code = "import sys; print('ready', flush=True); sys.stdin.read()"
    program = PipedProgram([sys.executable, "-c", code])
    try:
        assert program.receive(soon()).output == b"ready\n"
        with pytest.raises(ModelError, match="has given nothing in time"):
            program.receive(time.monotonic())
        with pytest.raises(ModelError, match="has not ended in time"):
            program.status(time.monotonic())
        assert program.running
    finally:
        program.kill()
    assert not program.running
    program.kill()


def test_a_program_that_has_ended_takes_text():
    code = "import os; os.close(0); os.close(1); os.close(2)"
    program = PipedProgram([sys.executable, "-c", code])
    try:
        assert program.receive(soon()).ended
        assert program.status(soon()) == 0
        program.write("x")
        program.write("x", last=True)
        assert program.receive(soon()).ended
    finally:
        program.kill()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of descriptors")
def test_no_descriptor_stays():
    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    program = PipedProgram([sys.executable, "-c", "pass"])
    assert count() > before
    program.kill()
    assert count() == before


def test_a_program_that_is_not_there(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SettingsRefused, match="program 'espeak-ng' was not found; install it"):
        program_at(None, "espeak-ng")
    with pytest.raises(SettingsRefused, match="'/nowhere/x' was not found"):
        program_at(Path("/nowhere/x"), "espeak-ng")
    assert program_at(Path(sys.executable), "espeak-ng") == sys.executable
