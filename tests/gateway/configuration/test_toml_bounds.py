"""partway.gateway.configuration.toml_bounds: what a file may ask of the parser of TOML."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from partway.gateway.configuration.toml_bounds import (
    MAX_DEPTH,
    MAX_KEY_PARTS,
    MAX_MARKS,
    MAX_STRETCH,
    TooMuch,
    check_bounds,
)
from tests.gateway.configuration.documents import VALUES, as_toml

KEY = ".".join("a" * MAX_KEY_PARTS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"b = 1\n{KEY}.a = 1", "line 2: there are more than 16 parts in a dotted key"),
        (f"[{KEY}.a]", "line 1: there are more than 16 parts in a dotted key"),
        (f"[[ {KEY} . 'a' ]]", "line 1: there are more than 16 parts in a dotted key"),
        (f"x = {{ {KEY}.\"a\" = 1 }}", "line 1: there are more than 16 parts in a dotted key"),
        (f"x = [\n{{ {KEY}.a = 1 }}]", "line 2: there are more than 16 parts in a dotted key"),
        ("x = " + "[" * (MAX_DEPTH + 1), "line 1: there are more than 32 arrays or tables"),
        ("x = " + "{a=" * (MAX_DEPTH + 1), "line 1: there are more than 32 arrays or tables"),
        ("\n" * (MAX_MARKS + 1), "line 250001: there are more than 250000 keys, values, tables"),
        ("x = [" + "1," * MAX_MARKS + "]", "line 1: there are more than 250000 keys, values"),
        ("[[a]]\n" * 60_000, "line 50001: there are more than 250000 keys, values, tables"),
        ("x = 0x" + "f" * MAX_STRETCH, "line 1: there are more than 8192 characters of a key"),
        ("x = 1\ny" + " " * MAX_STRETCH + "= 1", "line 2: there are more than 8192 characters"),
        # Behind each kind of string the bounds hold, wherever it ends.
        *(
            (f"x = {string}\n{KEY}.a = 1", "there are more than 16 parts in a dotted key")
            for string in (
                '"a"', '""', r'"\""', r'"\\"', '"#"', "'a'", "''", "'\\'", "'''a'''", "''''''",
                '"""a"""', '""""""', '"""a""""', '"""a"""""', '"""\n"a" ""b"""', r'"""\""""',
                "'''a''''", "'''''a'''''", "1 # '", '1 # """', "1 # \"", "'''\n# ''' # '''",
            )
        ),
    ],
)  # fmt: skip
def test_what_would_cost_too_much_is_refused_before_it_is_parsed(text: str, said: str) -> None:
    with pytest.raises(TooMuch) as caught:
        check_bounds(text)
    assert said in str(caught.value)
    assert "; there must be at most " in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        f"{KEY} = 1.5\n[{KEY}]\nx = 1",
        "x = " + "[" * MAX_DEPTH + "]" * MAX_DEPTH,
        "x = [" + "[]," * 10_000 + "]",
        f'x = "{"." * 100_000}"',
        f"x = '''{'=[{,}].#' * 100_000}'''",
        f'x = """\n{"[[a.b]]" * 100_000}\\"""" """',
        f"# {'a.' * 100_000}\nx = 1 #{'[' * 100_000}",
        f"x={'9' * MAX_STRETCH}",
        "",
    ],
)
def test_what_is_in_strings_and_comments_is_not_counted(text: str) -> None:
    check_bounds(text)


#: What strings, comments and lines are made of, so that many a text of them is TOML.
_PIECES = ('"', "'", '"""', "'''", "\\", "\n", "\r\n", "#", "a", "=", ".", " ", "[", "]", '\\"',
           "\nb = ", "{", "}", ",", "é")  # fmt: skip


@settings(max_examples=400)
@given(st.lists(st.sampled_from(_PIECES), max_size=16).map("".join))
@example('""""a""""')
@example("''''a''''")
def test_strings_end_where_they_end_for_the_parser(text: str) -> None:
    document = f"a = {text}"
    try:
        tomllib.loads(document)
    except tomllib.TOMLDecodeError:
        return
    with pytest.raises(TooMuch, match="parts in a dotted key"):
        check_bounds(f"{document}\n{KEY}.a = 1")


@given(VALUES)
def test_ordinary_files_pass(value: object) -> None:
    check_bounds(as_toml({"x": value}))
