"""partway.gateway.cli.main: finding a command, and no more than that."""

from __future__ import annotations

import subprocess
import sys

import pytest

from partway import __version__
from partway.gateway.cli.main import COMMANDS, main


def test_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"partway {__version__}\n"


def test_help_names_every_command(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert [name for name in (*COMMANDS, "completion") if f"\n    {name}" not in text] == []


@pytest.mark.parametrize("words", [[], ["sreve"], ["--port", "1"]], ids=str)
def test_what_is_no_command(capsys, words):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert "usage: partway" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_other_one(name):
    code = (
        "import sys\nfrom partway.gateway.cli.main import main\n"
        f"try: main([{name!r}, '--help'])\nexcept SystemExit: pass\n"
        "print(*(n for n in sys.modules if n.startswith('partway.gateway.cli.')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {module.rpartition(".")[2] for module in done.stderr.split()}
    assert loaded & set(COMMANDS) == {name}
