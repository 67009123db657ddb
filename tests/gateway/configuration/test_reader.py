"""Files, variables and flags: what they become, and every way in which they are refused."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings

from partway.gateway.configuration.expected import Flag, array, secret, table_or, text, whole
from partway.gateway.configuration.messages import SettingsError, TableRefused
from partway.gateway.configuration.reader import MAX_FILE_BYTES, checked, read_toml
from tests.gateway.configuration.documents import TOO_DEEP, VALUES, as_toml, taken_or_refused

Port = Annotated[int, whole(0, 65_535)]


@dataclass(frozen=True)
class Inner:
    port: Port = 1
    way: Literal["in", "out"] = "in"
    least: Annotated[int, whole(0)] = 0

    def __post_init__(self) -> None:
        if self.least > self.port:
            raise TableRefused(f"it is {self.least}; it must be at most port, {self.port}", "least")
        if self.port == 99:
            raise TableRefused("99 and nothing else was given; it must have more")


def _refuses(value: str) -> bool:
    if value == "reason":
        raise ValueError("for this reason")
    return value != "bad"


@dataclass(frozen=True)
class Table:
    url: Annotated[str, text("a URL", _refuses)]
    flag: Flag = False
    list: Annotated[tuple[Inner, ...], array("tables, two at most", most=2, stop=False)] = ()
    map: dict[Annotated[str, text("small letters", str.islower)], Inner] = field(
        default_factory=dict
    )
    short: Annotated[Any, table_or("a table, or true", Inner, lambda value: value is True)] = None


@pytest.fixture
def refused(tmp_path: Path):
    """Reads a file, and returns what is said of it, without the file's name."""

    def read(content: str | bytes, *, secret: bool = False, most: int = 10_000) -> list[str]:
        path = tmp_path / "f.toml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(SettingsError) as caught:
            read_toml(path, most, secret=secret).as_table(Table)
        assert caught.value.__cause__ is None
        lines = str(caught.value).splitlines()
        assert all(line.startswith(f"{path}: ") for line in lines)
        return [line.removeprefix(f"{path}: ") for line in lines]

    return read


def test_a_file_becomes_values(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text('url = "u"\nshort = true\n[[list]]\nport = 2\n[map.a]\nway = "out"\n')
    table = read_toml(path).as_table(Table)
    assert table == Table("u", False, (Inner(2),), {"a": Inner(way="out")}, True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "url: this key is missing; it must be a URL"),
        ("url = 1", "url: the number 1 was given; it must be a URL"),
        ("url = 'bad'", "url: 'bad' was given; it must be a URL"),
        ("url = 'reason'", "url: 'reason' was given; it must be a URL (for this reason)"),
        ("url = ''\nflag = 1", "flag: the number 1 was given; it must be true or false"),
        ("url = ''\nflg = 1", "flg: this key is unknown; the nearest known one is flag"),
        ("url = ''\nlist = 1", "list: the number 1 was given; it must be tables, two at most"),
        (
            f"url = ''\nflag = 0x{'f' * 5000}",
            "flag: a number of very many digits was given; it must be true or false",
        ),
        (
            f"url = ''\nshort.port = 0x{'f' * 5000}",
            (
                "short.port: a number of very many digits was given; "
                "it must be a whole number from 0 to 65535"
            ),
        ),
        ("url = ''\nlist = [1]", "list#1: the number 1 was given; it must be a table"),
        (
            "url = ''\nlist = [{}, {}, {}]",
            "list: an array of 3 was given; it must be tables, two at most",
        ),
        (
            "url = ''\n[[list]]\nport = 70000",
            "list#1.port: 70000 was given; it must be a whole number from 0 to 65535",
        ),
        (
            "url = ''\n[[list]]\n[[list]]\nway = 'up'",
            "list#2.way: 'up' was given; it must be 'in' or 'out'",
        ),
        (
            "url = ''\n[[list]]\nway = 1",
            "list#1.way: the number 1 was given; it must be 'in' or 'out'",
        ),
        ("url = ''\nmap = []", "map: an empty array was given; it must be a table"),
        ("url = ''\nmap.A = {}", "map.A: the name 'A' was given; it must be small letters"),
        ("url = ''\nmap.'[key]' = 1", "map.'[key]': the number 1 was given; it must be a table"),
        ("url = ''\nmap.a = 1", "map.a: the number 1 was given; it must be a table"),
        (
            "url = ''\nmap.a.prt = 1",
            "map.a.prt: this key is unknown; the nearest known one is port",
        ),
        ("url = ''\nmap.a.least = 2", "map.a.least: it is 2; it must be at most port, 1"),
        ("url = ''\nmap.a.port = 99", "map.a: 99 and nothing else was given; it must have more"),
        (
            "url = ''\nshort = false",
            "short: the boolean false was given; it must be a table, or true",
        ),
        (
            "url = ''\nshort.port = 'x'",
            "short.port: the string 'x' was given; it must be a whole number from 0 to 65535",
        ),
        ("url = ", "this is not TOML: line 1, at the end: Invalid value"),
        ("url = ''\n\nflag = maybe", "this is not TOML: line 3, column 8: Invalid value"),
        ("a = 1\na = 2", "this is not TOML: line 2, at the end: Cannot overwrite a value"),
        (b"url = ''\n\xff", "this is not TOML: line 2 has a byte that is not UTF-8"),
        (f"url = {'9' * 5000}", "this is not TOML: a number has too many digits"),
        (f"url = {'[' * 5000}", TOO_DEEP),
        ("#" * 10_001, "this file must have at most 10000 bytes"),
    ],
)
def test_what_is_said_of_a_fault(refused, content, said):
    assert refused(content) == [said]


def test_every_fault_has_a_line_in_the_order_of_the_file(refused):
    content = (
        "flg = 1\n[short]\nport = -1\n[[list]]\nprt = 1\nport = 'x'\n[[list]]\nway = 1\n"
        "[map]\nA = 1\n"
    )
    assert [line.partition(": ")[0] for line in refused(content)] == [
        "flg", "short.port", "list#1.prt", "list#1.port", "list#2.way", "map.A", "map.A", "url",
    ]  # fmt: skip


def test_of_many_faults_ten_are_shown(refused):
    lines = refused("\n".join(f"x{number} = 1" for number in range(500)))
    assert len(lines) == 11
    assert lines[9].startswith("x9: this key is unknown")
    assert lines[10] == "there are 491 more faults"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("url = 1", "url: a number was given; it must be a URL"),
        ("url = 'bad'", "url: a string was given; it must be a URL"),
        ("url = 'reason'", "url: a string was given; it must be a URL"),
        ("url = ''\nflg = 1", "flg: this key is unknown; the nearest known one is flag"),
        (
            "url = ''\nbadbadbadbadbadbadbadbadbad = 1",
            (
                "this has an unknown key, which is not shown; "
                "it must be one of url, flag, list, map, short"
            ),
        ),
        (
            "url = ''\nmap.a.BAD = 1",
            (
                "map.a: this has an unknown key, which is not shown; "
                "it must be one of port, way, least"
            ),
        ),
        ("url = bad", "this is not TOML: line 1, column 7"),
        ("bad", "this is not TOML: line 1, at the end"),
    ],
)
def test_a_file_of_secrets_is_not_repeated(refused, content, said):
    (line,) = refused(content, secret=True)
    assert line == said
    assert "bad" not in line.replace("bad" * 9, "")


@dataclass(frozen=True)
class TableWithSecrets:
    url: Annotated[str, text("a URL", _refuses)]
    keys: Annotated[dict[str, Annotated[str, text("a URL", _refuses)]], secret("a table of URLs")]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("keys = 'bad'", "keys: a string was given; it must be a table of URLs"),
        ("keys.a = 'bad'", "keys.a: a string was given; it must be a URL"),
        ("keys.a = 'reason'", "keys.a: a string was given; it must be a URL"),
        ("keys.a = 1", "keys.a: a number was given; it must be a URL"),
    ],
)
def test_a_key_of_secrets_is_not_repeated_and_all_others_are(tmp_path, content, said):
    path = tmp_path / "f.toml"
    path.write_text(f"url = 'bad'\n{content}")
    with pytest.raises(SettingsError) as caught:
        read_toml(path).as_table(TableWithSecrets)
    assert str(caught.value).splitlines() == [
        f"{path}: url: 'bad' was given; it must be a URL",
        f"{path}: {said}",
    ]


def test_a_file_that_cannot_be_read(tmp_path):
    for path, why in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        with pytest.raises(SettingsError) as caught:
            read_toml(path)
        assert str(caught.value) == f"{path}: cannot be read: {why}"


def test_a_file_that_never_ends_is_read_no_further_than_it_may(tmp_path):
    path = tmp_path / "endless"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # it takes up nothing
    with pytest.raises(
        SettingsError, match=f"endless: this file must have at most {MAX_FILE_BYTES}"
    ):
        read_toml(path)


def test_a_file_that_would_cost_the_parser_gigabytes(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text(f"{'a.' * 50_000}a = 1\n")
    with pytest.raises(SettingsError) as caught:
        read_toml(path)
    assert str(caught.value) == (
        f"{path}: line 1: there are more than 16 parts in a dotted key; there must be at most 16"
    )


def test_a_pipe_is_not_waited_for(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(SettingsError) as caught:
        read_toml(path)
    assert str(caught.value) == (
        f"{path}: cannot be read: this is a pipe; it must be a regular file"
    )


def test_a_file_that_is_called_otherwise(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text("url = 1\n")
    with pytest.raises(SettingsError, match=r"^it: url: the number 1 was given"):
        read_toml(path, called="it").as_table(Table)
    path.write_text("url")
    with pytest.raises(SettingsError, match=r"^it: this is not TOML"):
        read_toml(path, called="it")


def test_faults_that_a_user_finds(tmp_path):
    path = tmp_path / "f.toml"
    path.write_text("")
    document = read_toml(path)
    document.refuse([])
    with pytest.raises(SettingsError) as caught:
        document.refuse([(("a", 0), "it is wrong"), (("b",), "so is it")])
    assert str(caught.value) == f"{path}: a#1: it is wrong\n{path}: b: so is it"


@pytest.mark.parametrize(
    ("hint", "value", "said"),
    [
        (Port, "http", "X: 'http' was given; it must be a whole number from 0 to 65535"),
        (Port, "", "X: an empty string was given; it must be a whole number from 0 to 65535"),
        (Port | None, 70_000, "X: 70000 was given; it must be a whole number from 0 to 65535"),
        (Literal["a", "b"], "c", "X: 'c' was given; it must be 'a' or 'b'"),
        (Inner, {"prt": 1}, "X: prt: this key is unknown; the nearest known one is port"),
    ],
)
def test_a_variable_or_a_flag_is_named(hint, value, said):
    with pytest.raises(SettingsError) as caught:
        checked(hint, value, "X")
    assert str(caught.value) == said


def test_a_variable_becomes_a_value():
    assert checked(Port | None, 1, "X") == 1
    assert checked(Inner, {"port": 2}, "X") == Inner(2)


@settings(deadline=None)
@given(VALUES, VALUES)
def test_any_value_is_taken_or_refused_with_the_one_exception(tmp_path_factory, one, other):
    path = tmp_path_factory.getbasetemp() / "any.toml"
    for key in ("url", "flag", "list", "map", "short", "x"):
        table = {"url": "u", key: one, "y": other} if key == "x" else {"url": "u", key: one}
        path.write_text(as_toml(table), "utf-8")
        found = taken_or_refused(lambda: read_toml(path).as_table(Table), SettingsError, path)
        assert found is None or isinstance(found, Table)


def test_nothing_of_pydantic_is_imported_before_a_value_is_checked():
    """It takes longer than all else that some commands do."""
    code = (
        "import sys, partway.gateway.settings.settings, partway.gateway.access.principals;"
        "import partway.gateway.workbench.intermediary.faults_file;"
        "import partway.gateway.workbench.testing.container_file;"
        "sys.exit(any(name.startswith('pydantic') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_flags_and_variables_are_checked_without_pydantic_but_for_its_core():
    """It takes a tenth of a gateway's start."""
    code = (
        "import sys; from pathlib import Path; from partway.gateway.settings.settings import load;"
        "load({'port': 0, 'data_dir': Path('/x'), 'auth': 'none', 'endpoints': ('a=b',)},"
        "     {'PARTWAY_LIFETIME': '2', 'PARTWAY_LOG_LEVEL': 'debug'});"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
