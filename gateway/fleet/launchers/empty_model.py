"""What a container sees as its model directory where there is no model data (clause 1.1-6)."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path


def empty_model_dir() -> tempfile.TemporaryDirectory[str]:
    """Make an empty folder that is not to be written to; it is its caller's to remove."""
    made = tempfile.TemporaryDirectory(
        prefix="partway-model-",
        ignore_cleanup_errors=True,  # a container may have had it
    )
    Path(made.name).chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IRGRP | stat.S_IXGRP)
    return made
