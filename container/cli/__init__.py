"""The commands of ``partway-container``, one module each; none is imported to say what there is."""

from __future__ import annotations

from typing import Final

#: What each command is for, by its name.
COMMANDS: Final = {
    "serve": "serve a model until SIGTERM",
    "new": "write a starter project",
    "convert": "write records in another format",
    "inspect": "say what a file of records is, and where it breaks",
}
