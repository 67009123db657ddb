"""Imports of packages that would load PyAV, whose wheels have codecs under the GPL."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def without_av() -> Iterator[None]:
    """Put an empty module into the place of PyAV while a package is imported.

    PyAV's wheels have libx264 and libx265, which must not be loaded into this process.
    faster-whisper reads files with it; audio comes as samples here.
    """
    if "av" in sys.modules:
        yield
        return
    sys.modules["av"] = ModuleType("av")
    try:
        yield
    finally:
        del sys.modules["av"]
