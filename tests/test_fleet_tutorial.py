"""The tutorial of a fleet, by a command; an engine tries it in ``interop/engine_check.py``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tests.fleet_tutorial import BY_COMMAND, MODEL, OTHER_MODEL, PAGE, Served, follow


def test_without_an_engine(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "model2.py").write_text(OTHER_MODEL)
    assert BY_COMMAND.count("model:Greeter") == 1
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    said = "partway-container: --model model3:Greeter: there is no module model3 in "
    assert f"    {said}/" in PAGE
    with Served(tmp_path, BY_COMMAND, PATH=search) as served:
        follow(
            served,
            lambda _, process: os.kill(process, signal.SIGKILL),
            BY_COMMAND.replace("model:", "model2:"),
            BY_COMMAND.replace("model:", "model3:"),
            f"{said}{tmp_path}",
        )
    assert "instance stopped" in served.log()
