"""Completion of the commands' words by bash, zsh and fish: a script that the shell reads once.

shtab makes the script from the command's own parser, and is imported when a script is asked for.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    # argparse has no public name for the result of add_subparsers().
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]  # noqa: SLF001

SHELLS: Final = ("bash", "zsh", "fish")

_EPILOG = """\
where each shell looks for its script:
  {prog} completion bash > ~/.local/share/bash-completion/completions/{prog}
  {prog} completion zsh > ~/.zfunc/_{prog}         # with fpath+=~/.zfunc before compinit
  {prog} completion fish > ~/.config/fish/completions/{prog}.fish
"""


def add_to(commands: Commands, whole: Callable[[], argparse.ArgumentParser], *, prog: str) -> None:
    """Add ``completion SHELL``, which prints a script for the parser that ``whole`` makes."""
    parser = commands.add_parser(
        "completion",
        help="print a shell's completion script for this command",
        description="Print the script that lets a shell complete this command's words.",
        epilog=_EPILOG.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell that runs the script")
    parser.set_defaults(run=lambda options: _print_script(whole(), options.shell))


def _print_script(parser: argparse.ArgumentParser, shell: str) -> int:
    import shtab

    for action in _actions(parser):
        if action.type is Path:
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every argument of a parser and of its commands."""
    # argparse has no public way to list them; shtab does the same.
    for action in parser._actions:  # noqa: SLF001
        yield action
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for below in action.choices.values():
                yield from _actions(below)
