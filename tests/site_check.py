"""The site of the documentation, which ``make docs`` builds just before.

Small sites show that the build refuses a broken link. What it lets pass is looked for here: pages
that no menu has, and Markdown that GitHub reads in another way.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.conftest import ROOT

SITE = ROOT / "build" / "site"
CONFIGURATION = ROOT / "zensical.toml"
PROJECT = tomllib.loads(CONFIGURATION.read_text("utf-8"))["project"]
CONTENTS = (ROOT / "docs" / "README.md").read_text("utf-8")


def listed_by_the_contents() -> list[str | dict[str, list[str]]]:
    """The menu that the contents stand for: each page under the first heading that links it."""
    menu: dict[str, list[str]] = {}
    seen = set()
    for section in re.split(r"^## ", CONTENTS, flags=re.MULTILINE)[1:]:
        for page in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", section):
            if page not in seen:
                seen.add(page)
                menu.setdefault(section.splitlines()[0], []).append(page)
    return ["README.md", *({title: pages} for title, pages in menu.items())]


def test_the_menu_is_that_of_the_contents():
    assert PROJECT["nav"] == listed_by_the_contents()


def test_no_page_is_an_orphan():
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    in_menu = {page for group in PROJECT["nav"][1:] for pages in group.values() for page in pages}
    assert pages - in_menu == {"README.md"}


def built_pages() -> list[Path]:
    return sorted(path for path in SITE.rglob("index.html") if "examples" not in path.parts)


def prose(page: Path) -> str:
    """What a reader sees of a page, without its code."""
    text = page.read_text("utf-8")
    article = text[text.index("<article") : text.index("</article>")]
    bare = re.sub(r"<(pre|code)\b.*?</\1>", "", article, flags=re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", bare))


def test_each_page_is_built_and_none_shows_its_markup():
    pages = built_pages()
    assert len(pages) == len(list((ROOT / "docs").rglob("*.md")))
    shown = {
        f"{page.relative_to(SITE)}: {line}"
        for page in pages
        for line in prose(page).splitlines()
        if re.match(r"\s*(- |\||```|:::|#+ )|.*\*\*", line)
    }
    assert shown == set()


def test_it_can_be_searched_for_what_docstrings_say():
    index = (SITE / "search.json").read_text("utf-8")
    assert "reconnecting" in index
    assert "reference/client-api/" in index


@pytest.mark.parametrize("name", ["client", "container", "testing"])
def test_docstrings_are_markdown_without_what_is_not_public(name):
    text = (SITE / "reference" / f"{name}-api" / "index.html").read_text("utf-8")
    assert re.findall(r":(?:attr|class|data|exc|func|meth|mod):|<p>.*::</p>", text) == []
    assert re.findall(r'<h3 id="[\w.]*\.(_\w+|writing_paused)"', text) == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("See [it](page.md#a-part).", None, id="good"),
        pytest.param("See [it](nothing.md).", "page does not exist", id="no page"),
        pytest.param("See [it](page.md#nothing).", "anchor does not exist", id="no anchor"),
        pytest.param("::: partway.nothing", "partway.nothing could not be found", id="no name"),
    ],
)
def test_a_broken_link_fails_the_build(text, complaint, tmp_path):
    settings = re.sub(r"(?ms)^nav = \[.*?^\]$", "", CONFIGURATION.read_text("utf-8"))
    for path in ("src", "docs/docstrings.py"):
        settings = settings.replace(f'["{path}"]', f'["{ROOT / path}"]')
    (tmp_path / "zensical.toml").write_text(settings)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "README.md").write_text(f"# Contents\n\n{text}\n")
    (tmp_path / "docs" / "page.md").write_text("# Page\n\n## A part\n\nIt is short.\n")
    build = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = re.sub(r"\x1b\[[0-9;]*m", "", build.stdout + build.stderr)
    assert (build.returncode == 0) is (complaint is None), said
    assert (complaint or "No issues found") in said
