"""What tests of engines that start programs share."""

from __future__ import annotations

import pytest

from partway.container.models.voice.engines import espeak, piper
from partway.container.models.voice.engines.piped_program import PipedProgram


@pytest.fixture
def started(monkeypatch):
    """The programs that engines have started."""
    programs: list[PipedProgram] = []

    class Noted(PipedProgram):
        def __init__(self, command):
            super().__init__(command)
            programs.append(self)

        @property
        def is_open(self):
            """Whether it still has pipes."""
            return not all(pipe.closed for pipe in (self._input, self._output, self._errors))

    for module in (espeak, piper):
        monkeypatch.setattr(module, "PipedProgram", Noted)
    return programs
