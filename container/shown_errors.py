"""An exception of a model's own code as its author sees it while developing."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import Final

from partway.container.errors import ModelError
from partway.protocol.limits import REFUSAL_BODY_BYTES

#: Frames that are shown, the last ones of the author's own code.
_MOST_FRAMES: Final = 4
#: Characters of a message; with the frames all of it stays below what a gateway passes on.
_MOST_CHARACTERS: Final = 600
_MOST_LINE: Final = 160

_PATHS: Final = sysconfig.get_paths()
#: Folders whose code is not the author's: Python's, installed packages', and ours.
_NOT_THEIRS: Final = (
    *(_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    str(Path(__file__).parents[1]),
)


def shown_reason_of(error: BaseException) -> str:
    """The reason of a :class:`ModelError`; any other exception as :func:`shown_error` has it."""
    return error.reason if isinstance(error, ModelError) else shown_error(error)


def shown_error(error: BaseException) -> str:
    """The type and message of an exception, and the last frames of the author's code.

    It has at most :data:`~partway.protocol.limits.REFUSAL_BODY_BYTES` bytes, as much as a gateway
    passes on.
    """
    message = str(error)[:_MOST_CHARACTERS]
    name = type(error).__name__
    lines = [f"the model failed: {name}: {message}" if message else f"the model failed: {name}"]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_NOT_THEIRS)]
    for frame in own[-_MOST_FRAMES:]:
        lines.append(
            f'  File "{frame.filename[-_MOST_LINE:]}", line {frame.lineno}, in {frame.name}'
        )
        if frame.line:
            lines.append(f"    {frame.line[:_MOST_LINE]}")
    text = "\n".join(lines).encode()[: REFUSAL_BODY_BYTES - 1]
    return text.decode(errors="ignore")
