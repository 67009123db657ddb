"""Imports of modules that stay until the process ends, for less than Python takes by itself."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType


def import_to_stay(name: str) -> ModuleType:
    """Import a module, and all that it imports, out of the garbage collector's sight.

    What is imported grows from nothing to a hundred thousand objects, of which none is garbage: the
    collector would look at them all again and again meanwhile, for a tenth of the time, and at its
    first turn behind it.

    Args:
        name: the module's, from its root on.
    """
    if name in sys.modules or not gc.isenabled():
        return importlib.import_module(name)
    gc.disable()
    try:
        return importlib.import_module(name)
    finally:
        gc.freeze()
        gc.enable()
