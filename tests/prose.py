"""Find sentences that readers stumble over; run by ``make lint``.

The rules are about Markdown pages, docstrings, comments, and the messages of exceptions:

- a sentence has at most 30 words;
- it does not begin with a free relative clause ("What is read…", "Whoever asks…");
- no pronoun stands for a noun of another clause ("it is none", "and they what");
- it says how things are, not how they were ("it used to be…"); the changelog is exempt.

A code block, a table and a literal are not sentences.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = ("README.md", "CHANGELOG.md", "docs/**/*.md")
MODULES: Final = tuple(
    f"{room}/**/*.py" for room in ("gateway", "protocol", "container", "benchmarks")
)
MOST_WORDS: Final = 30

_RULES: Final = {
    "begins with a free relative clause": re.compile(
        r"(What|Who|Whoever|Whatever|Whichever|Whom|That which|Where nobody|As is|Nor)\b(?!.*\?$)"
    ),
    "has a pronoun without its noun": re.compile(
        r".*\b((?<!there )(is|are) none|by none|and they what|of what (is|they)|nobody who is not|"
        r"is what it is|of both,|thereof|the (latter|former))\b"
    ),
    "tells history": re.compile(
        r".*\b(used to be|([Ii]t|which) took \d+|was \d+ before|in place of \d+)\b"
    ),
}
#: The end of a sentence, with the beginning of the next.
_BETWEEN_SENTENCES: Final = re.compile(r"(?<=[.!?:])[*\")]*\s+(?=\D)|(?<=;)\s+(?=[A-Z`\"(])")
#: An entry of a docstring's "Args:" and its like; each is a text of its own.
_ENTRY: Final = re.compile(r"^[ ]*(?:- )?[`*\w]+(?: \([^)]*\))?:[ ]+", re.MULTILINE)
_LITERAL: Final = re.compile(r"``.+?``|`[^`]*`|\]\([^)]*\)", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z0-9'’]+")


class Text(NamedTuple):
    """A paragraph of a file, and the line on which it begins."""

    line: int
    words: str


def on_page(markdown: str) -> Iterator[Text]:
    """The paragraphs and list items of a Markdown page; no headings, tables or code."""
    fenced = False
    begun, lines = 0, list[str]()
    for number, line in enumerate([*markdown.splitlines(), ""], 1):
        bare = line.strip()
        is_fence = bare.startswith("```")
        item = re.match(r"(?:[-*]|\d+\.) ", bare)
        is_text = bare and not fenced and not is_fence and bare[0] not in "|#<>"
        fenced ^= is_fence
        if lines and (item or not is_text):
            yield Text(begun, " ".join(lines))
            lines = []
        if is_text:
            begun = begun if lines else number
            lines.append(bare[item.end() :] if item else bare)


def in_module(source: str) -> Iterator[Text]:
    """The docstrings, comments and messages of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring is not None:
                yield from _in_docstring(docstring, node.body[0].lineno)
        elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            yield from _in_message(node.exc)
    yield from _in_comments(source)


def _in_docstring(docstring: str, line: int) -> Iterator[Text]:
    is_code = False
    for paragraph in re.split(r"\n\s*\n", docstring):
        is_code = is_code and paragraph.startswith(" ")
        if not is_code and "====" not in paragraph and not re.search(r"[─│▶┌└]", paragraph):
            for part in re.split(r"\n(?=\s*- )", paragraph):
                for entry in _ENTRY.split(part):
                    yield Text(line, " ".join(entry.split()).removeprefix("- "))
        is_code = is_code or paragraph.rstrip().endswith("::")
        line += paragraph.count("\n") + 2


def _in_message(call: ast.Call) -> Iterator[Text]:
    for argument in call.args:
        match argument:
            case ast.Constant(value=str(words)):
                yield Text(argument.lineno, words[:1].upper() + words[1:])
            case ast.JoinedStr(values=values):
                words = "".join(
                    str(each.value) if isinstance(each, ast.Constant) else "``" for each in values
                )
                yield Text(argument.lineno, words[:1].upper() + words[1:])


def _in_comments(source: str) -> Iterator[Text]:
    begun, last, lines = 0, -1, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or token.string.startswith(("#!", "# noqa", "# type:")):
            continue
        line = token.start[0]
        is_behind_code = not token.line.lstrip().startswith("#")
        if lines and (line != last + 1 or is_behind_code):
            yield Text(begun, " ".join(lines))
            lines = []
        begun = begun if lines else line
        last = line
        lines.append(token.string.lstrip("#: "))
    yield Text(begun, " ".join(lines))


def faults(text: str, *, is_changelog: bool = False) -> Iterator[tuple[str, str]]:
    """Each sentence that breaks a rule, after the rule."""
    for sentence in _BETWEEN_SENTENCES.split(text):
        bare = _LITERAL.sub(" x ", sentence)
        words = len(_WORD.findall(bare))
        if words > MOST_WORDS:
            yield f"has {words} words; the most is {MOST_WORDS}", sentence
        for rule, pattern in _RULES.items():
            if pattern.match(bare) and not (is_changelog and "history" in rule):
                yield rule, sentence


def main() -> int:
    """Print each fault with its place; 1 if there is any."""
    found = 0
    for pattern in (*PAGES, *MODULES):
        for path in sorted(ROOT.glob(pattern)):
            source = path.read_text("utf-8")
            for text in on_page(source) if path.suffix == ".md" else in_module(source):
                for rule, sentence in faults(text.words, is_changelog=path.stem == "CHANGELOG"):
                    print(f"{path.relative_to(ROOT)}:{text.line}: {rule}: {sentence}")
                    found += 1
    print(f"{found} sentences to rewrite" if found else "All sentences are plain.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
