"""partway.gateway.terminal: the same table in a log as on a terminal, but for its colours."""

from __future__ import annotations

import io
import os
import pty

from rich.text import Text

from partway.gateway.terminal import PLAIN_WIDTH, console_for, print_line


def test_a_log_has_no_colours_and_one_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = io.StringIO()
    console = console_for(file)
    console.print(Text("bad", style="red"))
    console.print("x" * (PLAIN_WIDTH + 1))
    assert file.getvalue() == f"bad\n{'x' * PLAIN_WIDTH}\nx\n"


def test_a_terminal_has_them(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as file:
        console_for(file).print(Text("bad", style="red"))
        file.flush()
        shown = os.read(ours, 100)
    os.close(ours)
    assert b"\x1b[31mbad\x1b[0m" in shown


def test_a_line_is_not_folded():
    file = io.StringIO()
    print_line(console_for(file), Text("x" * 200))
    assert file.getvalue() == "x" * 200 + "\n"
