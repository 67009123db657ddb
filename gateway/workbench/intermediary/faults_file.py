"""Rules for faults from a TOML file."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from partway.gateway.configuration.expected import array, table_or
from partway.gateway.configuration.messages import TableRefused
from partway.gateway.configuration.reader import read_toml
from partway.gateway.workbench.intermediary.faults import FAULTS, SELECTORS, Fault, Rule

#: Most bytes of a file; a thousand rules fit.
MAX_FAULTS_BYTES: Final = 256 << 10


def _is_true(value: object) -> bool:
    return value is True


def _in_words(kind: type[Fault]) -> str:
    keys = ", ".join(field.name for field in fields(kind))
    return f"a table with any of {keys}, or true" if keys else "true"


#: ``[[rule]]``: the selectors of streams, and faults, each a table or true.
_RuleTable: Any = make_dataclass(
    "_RuleTable",
    [
        *((key, hint, field(default=None)) for key, hint in SELECTORS.items()),
        *(
            (name, Annotated[Any, table_or(_in_words(kind), kind, _is_true)], field(default=None))
            for name, kind in FAULTS.items()
        ),
    ],
    frozen=True,
    slots=True,
)


@dataclass(frozen=True, slots=True)
class _File:
    rule: Annotated[
        tuple[_RuleTable, ...],
        array("one or more tables, each under [[rule]]", least=1, stop=False),
    ]


def load_faults(path: Path) -> tuple[Rule, ...]:
    """Read rules from a TOML file.

    ::

        [[rule]]
        endpoint = "echo"
        first = 1
        close = { code = 1012, reason = "restarting", after = 3 }

        [[rule]]
        query = "fault=slow"
        throttle = { bytes_per_second = 500 }
        drop_pongs = true                        # true: with its defaults

    Raises:
        SettingsError: the file is not valid.
    """
    document = read_toml(path, MAX_FAULTS_BYTES)
    tables = document.as_table(_File).rule
    rules, refused = [], []
    for number, table in enumerate(tables):
        try:
            rules.append(_rule(table))
        except TableRefused as error:
            refused.append(error.within(("rule", number)))
    document.refuse(refused)
    return tuple(rules)


def _rule(table: Any) -> Rule:
    """Make a rule of its table; a fault that is only true has its defaults.

    Raises:
        TableRefused: the faults do not go together.
    """
    given = {name: getattr(table, name) for name in FAULTS}
    faults = [FAULTS[name]() if each is True else each for name, each in given.items() if each]
    return Rule(tuple(faults), **{key: getattr(table, key) for key in SELECTORS})
