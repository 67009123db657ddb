"""The contract page and the tests that claim its clauses."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from tests.conftest import (
    NOT_YET,
    REQUIRED_SECTIONS,
    ROOT,
    claims,
    contract_ids,
    required_ids,
    why_not_whole_suite,
)


def test_an_id_is_defined_once():
    assert [id for id, count in Counter(contract_ids()).items() if count > 1] == []


def test_ids_of_a_section_are_numbered_without_a_gap():
    sections: dict[str, list[int]] = {}
    for id in contract_ids():
        section, number = id.rsplit("-", 1)
        sections.setdefault(section, []).append(int(number))
    assert {name: sorted(numbers) for name, numbers in sections.items()} == {
        name: list(range(1, len(numbers) + 1)) for name, numbers in sections.items()
    }


def test_what_is_required_exists():
    sections = {id.rsplit("-", 1)[0] for id in contract_ids()}
    assert set(REQUIRED_SECTIONS) <= sections
    assert set(contract_ids()) >= NOT_YET


def test_no_test_claims_a_clause_that_does_not_exist(request):
    known = set(contract_ids())
    unknown = sorted(
        {f"{item.nodeid}: {id}" for id, item in claims(request.session.items) if id not in known}
    )
    assert not unknown, "\n".join(unknown)


def test_every_required_clause_is_claimed_by_a_test(request):
    narrowed = why_not_whole_suite(request.config)
    if narrowed is not None:
        pytest.skip(f"needs the whole suite: {narrowed}")
    claimed = {id for id, _ in claims(request.session.items)}
    missing = required_ids() - claimed
    assert not missing, f"no test claims {', '.join(sorted(missing))}"


# --- The way from a clause to its code and its tests ---------------------------------------------

_ROW = re.compile(r"^\| (\d(?:\.\d)?-\d+) \| (.*) \| (.*?) ?\|$", re.MULTILINE)
_TOPIC = re.compile(r"^\| [A-Z][^|]* \| (.*`.*) \| (.*`.*) \|$", re.MULTILINE)
_PATH = re.compile(r"`([^`]+)`")
_RANGE = re.compile(r"(\d(?:\.\d)?)-(\d+)(?: to (\d(?:\.\d)?)-(\d+))?")


def where() -> str:
    return (ROOT / "docs" / "reference" / "where.md").read_text("utf-8")


def rows_of_where() -> dict[str, tuple[list[str], list[str]]]:
    """Each clause's code and tests, as the page has them."""
    found = _ROW.findall(where())
    assert len(found) == len({id for id, _, _ in found})
    return {id: (_PATH.findall(code), _PATH.findall(tests)) for id, code, tests in found}


def cited(text: str) -> set[str]:
    """The clauses that a module names, ranges (``1.2-1 to 1.2-5``) included."""
    ids = set()
    for section, first, until, last in _RANGE.findall(text):
        ids |= {f"{section}-{n}" for n in range(int(first), int(last if until else first) + 1)}
    return ids


def test_each_clause_has_its_way():
    ways = rows_of_where()
    assert list(ways) == sorted(ways, key=contract_ids_in_order().index)
    assert set(ways) == set(contract_ids())
    assert {id for id, (code, tests) in ways.items() if not (code and tests)} == NOT_YET


def contract_ids_in_order() -> list[str]:
    return sorted(contract_ids(), key=lambda id: [int(part) for part in re.split("[.-]", id)])


def test_the_way_leads_to_code_that_names_the_clause():
    wrong = {
        f"{path}: {id}"
        for id, (code, _) in rows_of_where().items()
        for path in code
        if id not in cited((ROOT / path).read_text("utf-8"))
    }
    assert wrong == set()


def test_the_way_leads_to_tests_that_claim_it():
    """By a mark, or in the first column of a table of cases."""
    wrong = {
        f"{path}: {id}"
        for id, (_, tests) in rows_of_where().items()
        for path in tests
        if not re.search(
            rf'(?:clause\([^)]*|^    \()"{re.escape(id)}"',
            (ROOT / path).read_text("utf-8"),
            re.MULTILINE,
        )
    }
    assert wrong == set()


def test_the_topics_lead_somewhere():
    topics = _TOPIC.findall(where())
    assert len(topics) > 5
    paths = [path for columns in topics for column in columns for path in _PATH.findall(column)]
    assert [path for path in paths if not (ROOT / path).exists()] == []
