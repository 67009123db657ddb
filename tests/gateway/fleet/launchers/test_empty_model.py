"""partway.gateway.fleet.launchers.empty_model."""

from __future__ import annotations

from pathlib import Path

import pytest

from partway.gateway.fleet.launchers.empty_model import empty_model_dir


@pytest.mark.clause("1.1-6")
def test_it_is_empty_and_not_to_be_written_to():
    with empty_model_dir() as name:
        assert list(Path(name).iterdir()) == []
        assert not Path(name).stat().st_mode & 0o222
    assert not Path(name).exists()


def test_what_was_written_all_the_same_goes_with_it():
    with empty_model_dir() as name:
        Path(name).chmod(0o700)
        (Path(name) / "file").write_text("x")
    assert not Path(name).exists()


def test_one_that_somebody_has_removed_is_no_error():
    with empty_model_dir() as name:
        Path(name).rmdir()
