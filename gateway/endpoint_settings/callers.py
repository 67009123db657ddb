"""What callers of the API may have of this machine: which variables, and which folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Final

from partway.gateway.configuration.expected import text
from partway.gateway.configuration.messages import SettingsError
from partway.gateway.files import others_may

#: What SageMaker's own containers read, and no command: unless the settings say otherwise.
OF_THE_PLATFORM: Final = ("SAGEMAKER_*",)

#: Never a * alone: what can make a command of a program has to be listed by its name.
Variables = Annotated[
    str,
    text(
        "a variable's name, or how names begin and a * at its end, such as SAGEMAKER_*",
        re.compile(r"[A-Za-z_][A-Za-z0-9_]*\*?").fullmatch,
    ),
]


def check_roots(roots: Iterable[Path]) -> None:
    """Refuse folders in which others could put what the gateway is not to read.

    Args:
        roots: below which callers of the API may name files.

    Raises:
        SettingsError: others may write to one of them.
    """
    for root in roots:
        try:
            mode = root.stat().st_mode
        except OSError:  # nothing below it can be named
            continue
        if "write" in others_may(mode):
            raise SettingsError(
                f"api.local_roots: {root}: others may write to this folder, and could lead the "
                "gateway elsewhere by a link; only its owner must: chmod go-w"
            )
