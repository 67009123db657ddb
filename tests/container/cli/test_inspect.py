"""partway-container inspect: what it says of a file, whole and broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partway.container.cli.main import main
from partway.protocol.formats import AnswerColumns, Batch, SparseRows, encode, encode_answers

RECORDIO = "application/x-recordio-protobuf"


def shown(
    body: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[int, dict[str, str]]:
    path = tmp_path / "file"
    path.write_bytes(body)
    status = main(["inspect", *arguments, str(path)])
    lines = capsys.readouterr().out.splitlines()
    return status, {line[:14].rstrip(): line[14:] for line in lines}


def test_dense_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = encode(Batch(np.ones((5000, 28), np.float32), np.ones((5000, 1))), RECORDIO)
    assert shown(body, tmp_path, capsys) == (0, {
        "type": RECORDIO,
        "records": "5,000",
        "features": "28, dense",
        "numbers": "float32",
        "labels": "1 of each record",
    })  # fmt: skip


def test_sparse_records_and_what_is_beside_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = SparseRows(np.array([1.0, np.nan]), np.array([0, 9]), np.array([0, 1, 2]), 10)
    body = encode(Batch(rows, uid=["a", None], configurations=["{}", "{}"]), RECORDIO)
    assert shown(body, tmp_path, capsys) == (0, {
        "type": RECORDIO,
        "records": "2",
        "features": "10, sparse: 10.00% of the numbers are given",
        "numbers": "float64",
        "not finite": "1 numbers",
        "uid": "1 records have one",
        "configuration": "2 records have one",
    })  # fmt: skip


def test_where_it_breaks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = b'{"features": [1]}\n' * 30_000
    status, said = shown(good + b'{"features": [1}\n', tmp_path, capsys)
    assert status == 1
    assert said["type"] == "application/jsonlines"
    assert said["broken"].startswith("record 30000 (line 30001): the line is not JSON: ")
    assert int(said["records"].replace(",", "")) > 20_000


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"features": [1]}\n{"features": [2]}\n{"features": [3}\n', "application/jsonlines"),
        (b"1\n2\nx\n", "text/csv"),
        (b"# 0:1\n1 0:1\n1 0:2\nx 0:1\n", "text/libsvm"),
    ],
)
def test_what_was_good_before_it_breaks(
    body: bytes, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said = shown(body, tmp_path, capsys)
    assert (status, said["type"], said["records"]) == (1, kind, "2")
    assert said["features"].startswith("1, ")
    assert said["broken"].startswith("record 2 (line ")


def test_an_answer_is_said_to_be_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"score": np.ones(2), "label": np.ones(2)}
    status, said = shown(encode_answers(AnswerColumns(columns), RECORDIO), tmp_path, capsys)
    assert status == 1
    assert said["broken"] == (
        "record 0: the record has labels and no features, like a model's answer; it must have "
        "features"
    )


def test_a_name_says_what_lines_do_not_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1\n0 1:5\n")
    assert main(["inspect", str(path)]) == 0
    assert "text/libsvm" in capsys.readouterr().out


def test_as_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, said = shown(b"1,2\n", tmp_path, capsys, "--from", "text/csv; label_size=1")
    assert (status, said["labels"], said["features"]) == (0, "1 of each record", "1, dense")


def test_what_is_no_file_of_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"PK\x03\x04")
    assert main(["inspect", str(path)]) == 2
    assert "does not look like records of a known type" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path)]) == 1
    assert "Is a directory" in capsys.readouterr().err
