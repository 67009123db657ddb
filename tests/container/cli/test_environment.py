"""partway.container.cli.environment: the variables of a container are those that are read."""

from __future__ import annotations

import re

from partway.container.cli.environment import VARIABLES, variables_of_models
from partway.container.models.chat.settings import ChatSettings
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
    assert named == VARIABLES | variables_of_models()


def test_settings_of_models_are_loaded_by_their_prefix():
    assert variables_of_models(["PARTWAY_MODEL", "PARTWAY_CHATTY", "HOME"]) == frozenset()
    assert variables_of_models(["PARTWAY_CHAT_X"]) == ChatSettings.variables().keys()
