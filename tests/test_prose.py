"""tests.prose: what it finds, and what it passes over."""

from __future__ import annotations

import textwrap

import pytest

from tests.prose import MOST_WORDS, faults, in_module, on_page

LONG = " ".join(["word"] * (MOST_WORDS + 1)) + "."


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        (LONG, f"has {MOST_WORDS + 1} words"),
        ("Whoever asks is answered.", "free relative"),
        ("What comes later is lost.", "free relative"),
        ("A port is given, or it is none.", "pronoun"),
        ("The second is slower than the latter.", "pronoun"),
        ("It took 172 before.", "history"),
    ],
)
def test_a_fault(sentence, rule):
    ((found, where),) = faults(f"This is plain. {sentence} So is this.")
    assert rule in found
    assert where == sentence


@pytest.mark.parametrize(
    "text",
    [
        "What does it cost?",
        "It returns None if there is none.",
        f"Short. {LONG[:90]}. picows is short too.",
        "``" + "a b " * 40 + "`` is one word.",
        "[a link](" + "a/" * 80 + ")",
    ],
)
def test_no_fault(text):
    assert list(faults(text)) == []


def test_the_changelog_may_tell_history():
    assert list(faults("It took 172 before.", is_changelog=True)) == []


def test_the_texts_of_a_page():
    page = textwrap.dedent("""\
        # A heading

        One paragraph
        on two lines.
        - an item
          goes on
        1. another

        | a | table |
        ```
        code
        ```
        """)
    assert list(on_page(page)) == [
        (3, "One paragraph on two lines."),
        (5, "an item goes on"),
        (7, "another"),
    ]


def test_the_texts_of_a_module():
    module = textwrap.dedent('''\
        """A module.

        ======  =====
        name    a table
        ======  =====

        - one: first
        - two: second

        Such as::

            code

            more code

        Then prose.
        """
        # A comment
        # on two lines.
        x = 1  # behind code
        y = 2  # also behind code


        def f(name):
            """Do it.

            Args:
                name: its name.
            """
            raise ValueError(f"{name} was given")
        ''')
    found = [text.words for text in in_module(module) if text.words]
    assert found == [
        *("A module.", "first", "second", "Such as::", "Then prose."),
        *("Do it.", "Args:", "its name.", "`` was given"),
        *("A comment on two lines.", "behind code", "also behind code"),
    ]
