"""Which files a job has finished, as the next gateway reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.batch.finished_files import FinishedFiles


async def test_the_next_gateway_knows_them(tmp_path: Path) -> None:
    path = tmp_path / "job.finished"
    first = FinishedFiles(path)
    await first.read()
    assert first.names == set()
    for name in ("a.csv", "deep/b\n.csv", "ü.csv"):
        await first.add(name)
    later = FinishedFiles(path)
    await later.read()
    assert later.names == first.names == {"a.csv", "deep/b\n.csv", "ü.csv"}
    assert path.stat().st_mode & 0o777 == 0o600
    await later.forget()
    assert not path.exists()
    await later.forget()


async def test_a_line_that_is_cut_is_no_name(tmp_path: Path) -> None:
    path = tmp_path / "job.finished"
    path.write_bytes(b'"a.csv"\n"b.cs\n\xff\n"c.csv"\n"d')
    finished = FinishedFiles(path)
    await finished.read()
    assert finished.names == {"a.csv", "c.csv"}


async def test_a_disk_that_takes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    finished = FinishedFiles(tmp_path / "gone" / "job.finished")
    await finished.add("a.csv")
    assert finished.names == {"a.csv"}
    assert "could not be recorded" in caplog.text


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b'"a.csv"\n')
    (tmp_path / "job.finished").symlink_to(other)
    finished = FinishedFiles(tmp_path / "job.finished")
    await finished.read()
    assert finished.names == set()
    await finished.add("b.csv")
    assert other.read_bytes() == b'"a.csv"\n'


async def test_without_a_place_for_it(tmp_path: Path) -> None:
    finished = FinishedFiles(None)
    await finished.read()
    await finished.add("a.csv")
    assert finished.names == {"a.csv"}
    await finished.forget()
