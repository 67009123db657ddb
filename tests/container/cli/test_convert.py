"""partway-container convert: what it writes, and what it leaves when it cannot."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from partway.container.cli import conversion, record_flags
from partway.container.cli.main import main
from partway.protocol.media import RECORD_TYPES, Tabular, decode

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
        ("1,nan\n", [], 1, "from record 0 on: a feature is NaN or infinite"),
        ("1,2\n", ["--from", "text/csv; label_size=1"], 1, "has a place for none: --drop-labels"),
        ("1,2\n", ["--from", "image/png"], 2, "--from image/png: the body's type must be one of"),
        ("\0", [], 2, "rows does not look like records of any type: name it with --from"),
        ("1,2\n", ["--width", "0"], 2, "--width: 0 was given; it must be from 1 to"),
        ("1,2\n", ["--width", "3"], 1, "it must have 3"),
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


def test_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--to", "text/csv", str(tmp_path / "a")]) == 1
    assert capsys.readouterr().err.endswith("a: No such file or directory\n")
    assert main(["convert", "--to", "image/png", str(tmp_path / "a")]) == 2
    (tmp_path / "a").write_text("1")
    target = tmp_path / "b" / "c"
    assert main(["convert", "--to", "text/csv", str(tmp_path / "a"), "-o", str(target)]) == 1
    assert f"cannot write {target}: No such file" in capsys.readouterr().err


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
    assert "name a file with -o" in capsys.readouterr().err
