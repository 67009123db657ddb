"""partway-container convert: what it writes, and what it leaves when it cannot."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from partway.container.cli import conversion, record_flags
from partway.container.cli.main import main
from partway.protocol.formats import RECORD_TYPES, Tabular, decode
from tests.container.cli.commands import environment

ROWS = [[1.5, 16.0], [-2.0, 0.25]]


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("1.5,16\n-2,.25\n")
    return path


def test_the_types_are_those_that_there_are() -> None:
    assert record_flags.TYPES == RECORD_TYPES


@pytest.mark.parametrize("to", RECORD_TYPES)
def test_every_format_from_its_file_and_back(csv: Path, tmp_path: Path, to: str) -> None:
    target, back = tmp_path / "target", tmp_path / "back.csv"
    assert main(["convert", "--to", to, str(csv), "-o", str(target)]) == 0
    assert decode(target.read_bytes(), to, Tabular(width=2)).features.tolist() == ROWS
    arguments = ["--width", "2", "--drop-labels", str(target), "--output", str(back)]
    assert main(["convert", "--to", "text/csv", *arguments]) == 0
    assert back.read_text() == "1.5,16.0\n-2.0,0.25\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["back.csv", "rows.csv", "target"]


def test_labels_and_float32(tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "labelled"
    path.write_text("1,0.1,7\n")
    from_csv = ["--from", "text/csv; label_size=1"]
    assert main(["convert", *from_csv, "--to", "text/libsvm", "--float32", str(path)]) == 0
    assert capsysbinary.readouterr().out == b"1.0 0:0.1 1:7.0\n"
    recordio = "application/x-recordio-protobuf"
    assert main(["convert", *from_csv, "--to", recordio, "--float32", str(path)]) == 0
    batch = decode(capsysbinary.readouterr().out, recordio, Tabular())
    assert batch.features.tolist() == [[np.float32(0.1), 7]]
    assert batch.features.dtype == np.float32
    assert batch.labels.tolist() == [[1]]


def test_more_records_than_a_request_may_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    body = b"1\n" * ((1 << 20) + 1)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(body)))
    assert main(["convert", "--to", "text/csv", "-"]) == 0
    assert len(capsysbinary.readouterr().out) == len(b"1.0\n") * ((1 << 20) + 1)


@pytest.mark.parametrize(
    ("text", "arguments", "status", "error"),
    [
        ("1,2\n3\n", [], 1, "record 1 (line 2): the line has 1 columns"),
        ("1,nan\n", [], 1, "rows: record 0: feature 1 is NaN or infinite"),
        (
            "1,2\n",
            ["--from", "text/csv; label_size=1"],
            1,
            "can hold none; add --drop-labels",
        ),
        (
            "1,2\n",
            ["--from", "image/png"],
            2,
            "--from: Content-Type: 'image/png' was given",
        ),
        ("\0", [], 2, "rows does not look like records of a known type; name its type with --from"),
        ("1,2\n", ["--width", "0"], 2, "--width: 0 was given; it must be from 1 to"),
        ("1,2\n", ["--width", "3"], 1, "it must have 3"),
        ("0:1", ["--width", "1", "--index-base", "1"], 1, "pair 1: the index must be a whole"),
        ('{"features": [1]}', ["--width", "3"], 1, "it must have 3, as --width says"),
    ],
)
def test_what_cannot_be_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, arguments: list[str],
    status: int, error: str,
) -> None:  # fmt: skip
    path, target = tmp_path / "rows", tmp_path / "target"
    path.write_text(text)
    to_json = ["--to", "application/json", "-o", str(target)]
    assert main(["convert", *to_json, *arguments, str(path)]) == status
    assert error in capsys.readouterr().err
    assert [each.name for each in tmp_path.iterdir()] == ["rows"]


class Pipe(io.BytesIO):
    def seekable(self) -> bool:
        return False


#: Lines of LibSVM in several pieces; only the last record has a feature 9.
GROWING = b"1 0:1 5:2\n" * 20_000 + b"1 9:1\n"


@pytest.mark.parametrize("to", ["application/x-npy", "application/x-recordio-protobuf", "text/csv"])
def test_libsvm_that_grows_wider_is_read_twice(tmp_path: Path, to: str) -> None:
    source, target = tmp_path / "a.svm", tmp_path / "target"
    source.write_bytes(GROWING)
    assert main(["convert", "--drop-labels", "--to", to, str(source), "-o", str(target)]) == 0
    features = decode(target.read_bytes(), to, Tabular(width=10)).features
    assert features.shape == (20_001, 10)
    assert features[-1].tolist() == [0] * 9 + [1]
    assert features.sum() == 60_001


def test_a_pipe_that_grows_wider_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "target"
    command = ["convert", "--from", "text/libsvm", "--drop-labels", "-", "-o", str(target), "--to"]
    for to in set(RECORD_TYPES) - {"text/libsvm"}:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(GROWING)))
        assert main([*command, to]) == 1
        error = capsys.readouterr().err
        assert "the record has 10 features; it must have 6, as record 0 has; give the" in error
        assert not target.exists()
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(GROWING)))
        assert main([*command, to, "--width", "10"]) == 0
        target.unlink()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Pipe(GROWING)))
    assert main([*command, "text/libsvm"]) == 0


def test_a_label_that_text_has_no_word_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows"
    path.write_text("1,2\nnan,3\n")
    for to in ("text/csv", "text/libsvm"):
        assert main(["convert", "--from", "text/csv; label_size=1", "--to", to, str(path)]) == 1
        assert "rows: record 1: label 0 is NaN or infinite" in capsys.readouterr().err


def test_what_is_beside_the_numbers_is_dropped_when_that_is_said(
    tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    path = tmp_path / "rows"
    command = ["convert", "--to", "text/csv", str(path)]
    for member, name in (("uid", "a uid"), ("metadata", "metadata")):
        path.write_text(f'{{"features": [1]}}\n{{"features": [2], "{member}": "a"}}\n')
        assert main(command) == 1
        error = (
            f"record 1: the record has {name}; text/csv has no place for that; add --drop-beside"
        )
        assert error in capsysbinary.readouterr().err.decode()
        assert main([*command, "--drop-beside"]) == 0
        assert capsysbinary.readouterr().out == b"1.0\n2.0\n"
    path.write_text("0 qid:3 0:1\n")
    by_name = [*command, "--from", "text/libsvm", "--drop-labels"]
    assert main(by_name) == 1
    assert b"record 0: the record has a query's number (qid); text/csv has no place for that; " in (
        capsysbinary.readouterr().err
    )
    assert main([*by_name, "--drop-beside"]) == 0
    path.write_text('{"instances": [{"features": [1]}], "configuration": {"a": 1}}')
    assert main(command) == 1
    assert b"has a configuration beside its records" in capsysbinary.readouterr().err
    assert main([*command, "--drop-beside"]) == 0


@pytest.mark.parametrize("text", ["1,2\n3,1e300\n", "0 0:1\n0 1:-1e39\n"])
def test_what_float32_does_not_have(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    path, target = tmp_path / "rows", tmp_path / "target"
    path.write_text(text)
    recordio = ["--to", "application/x-recordio-protobuf", "-o", str(target)]
    assert main(["convert", "--float32", *recordio, str(path)]) == 1
    error = "record 1: feature 1 is out of float32's range; leave out --float32"
    assert error in capsys.readouterr().err
    assert not target.exists()
    path.write_text("1,inf\n")
    assert main(["convert", "--float32", *recordio, str(path)]) == 0


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--to", "text/csv", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err.endswith("a: No such file or directory\n")
    assert main(["convert", "--to", "image/png", str(tmp_path / "a")]) == 2
    (tmp_path / "a").write_text("1")
    target = tmp_path / "b" / "c"
    assert main(["convert", "--to", "text/csv", str(tmp_path / "a"), "-o", str(target)]) == 1
    assert f"cannot write {target}: No such file" in capsys.readouterr().err


def ran(csv: Path, stdout: int) -> tuple[int, bytes]:
    command = [sys.executable, "-m", "partway.container", "convert", "--to", "text/csv", str(csv)]
    done = subprocess.run(
        command, stdout=stdout, stderr=subprocess.PIPE, env=environment(), check=False
    )
    return done.returncode, done.stderr


def test_standard_output_that_is_full_and_that_nobody_reads(csv: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        error = b"partway-container: cannot write standard output: No space left on device\n"
        assert ran(csv, full.fileno()) == (1, error)
    reads, writes = os.pipe()
    os.close(reads)
    try:
        assert ran(csv, writes) == (0, b"")
    finally:
        os.close(writes)


def test_a_target_that_is_no_file_stays_what_it_is(
    csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["convert", "--to", "text/csv", str(csv), "-o"]
    real, link, pipe = tmp_path / "real", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(real)
    for _ in range(2):
        assert main([*command, str(link)]) == 0
        assert link.is_symlink()
        assert real.read_text() == "1.5,16.0\n-2.0,0.25\n"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main([*command, str(pipe)]) == 0
        assert os.read(reader, 100) == real.read_bytes()
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert main([*command, str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith(f"cannot write {tmp_path}: Is a directory\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
) -> None:  # fmt: skip
    class Signalling(Pipe):
        def read(self, size: int | None = -1) -> bytes:
            if any(tmp_path.iterdir()):  # it has begun to write
                signal.raise_signal(number)
            return super().read(size)

    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=Signalling(b"1\n" * 5000)))
    # Whoever runs the tests may have had them ignore it, and the command would leave it so.
    of_the_tests = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(SystemExit) as ended:
            main(["convert", "--to", "text/csv", "-", "-o", str(tmp_path / "target")])
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, of_the_tests)
    assert ended.value.code == 128 + number
    assert not any(tmp_path.iterdir())
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_it_says_how_far_it_is(
    csv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 0.5, 1.0])
    monkeypatch.setattr(conversion.time, "monotonic", lambda: next(now))
    monkeypatch.setattr("sys.stderr", Terminal())
    assert main(["convert", "--to", "text/csv", str(csv), "-o", str(tmp_path / "a")]) == 0
    shown = conversion.sys.stderr.getvalue()
    assert [line.rstrip(" ") for line in shown.replace("\n", "\r").split("\r")] == [
        "2 records, 4 a second",
        "2 records, 2 a second",
        "",
    ]


def test_a_terminal_is_no_place_for_records(
    csv: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    assert main(["convert", "--to", "text/csv", str(csv)]) == 2
    assert "name an output file with -o" in capsys.readouterr().err
