"""Imports of modules that stay until the process ends, without the cost of garbage collection."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType


def import_to_stay(name: str) -> ModuleType:
    """Import a module, and all that it imports, out of the garbage collector's sight.

    An import makes up to a hundred thousand objects, and none is garbage. The collector would scan
    them repeatedly, for a tenth of the time, and once more after the import.
    """
    if name in sys.modules or not gc.isenabled():
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
