"""partway.container.cli.environment: the variables of a container are those that are read."""

from __future__ import annotations

import re

from partway.container.cli.environment import VARIABLES
from tests.conftest import ROOT


def test_they_are_those_of_the_pages():
    """Each is documented, and nothing else is: beside them stand the platform's own."""
    reference = ROOT / "docs" / "reference"
    texts = [
        (reference / name).read_text("utf-8")
        for name in ("container.md", "chat.md", "text.md", "voice.md")
    ]
    named = {
        name for text in texts for name in re.findall(r"^\| `(PARTWAY_\w+)`", text, re.MULTILINE)
    }
    assert named == VARIABLES
