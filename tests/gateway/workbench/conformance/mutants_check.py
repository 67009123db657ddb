"""Each mutant fails the checks that it names, and no other. Run by ``make mutants``.

The others are those that it is tried on: :mod:`.mutants.drawing` says which, and with
``make mutants-whole`` it is all of them.
"""

from __future__ import annotations

import os

import pytest

from partway.gateway.workbench.conformance.checks import ALL
from partway.gateway.workbench.conformance.verdict import Verdict
from tests.gateway.workbench.conformance.good_check import CONTAINERS
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
from tests.gateway.workbench.conformance.mutants.drawing import drawn
from tests.gateway.workbench.conformance.mutants.registry import PROGRAM
from tests.gateway.workbench.conformance.mutants.trying import failed, tried

pytestmark = pytest.mark.timeout(300)

#: Whether each mutant is tried on every check.
WHOLE = os.environ.get("MUTANTS") == "whole"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop is enough: the checks run in this one, the mutants have their own."""
    return "asyncio"


@pytest.mark.parametrize("name", ["none", "chat"])
async def test_what_they_are_made_of_is_whole(name: str) -> None:
    """Else a mutant's verdicts would be those of something else."""
    report = await tried((*PROGRAM, name))
    assert failed(report) == {}
    of_openai = {each.verdict for each in report.results if each.check.id.startswith("openai.")}
    assert of_openai == {Verdict.PASS if name == "chat" else Verdict.SKIP}


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mutant_fails_where_it_is_broken(name: str) -> None:
    mutant = MUTANTS[name]
    only = mutant.root if not mutant.fast else None if WHOLE else drawn(mutant)
    found = failed(await tried(mutant.command, fast=mutant.fast, only=only))
    assert set(found) == mutant.root, f"{mutant.breaks} {found}"


def test_there_are_many_and_their_roots_exist() -> None:
    known = {check.id for check in ALL}
    unknown = {name: each.root - known for name, each in MUTANTS.items() if each.root - known}
    assert unknown == {}
    assert len(MUTANTS) >= 40


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CONTAINERS)
async def test_the_good_ones_end_while_a_stream_is_open(name: str) -> None:
    """What a fast run leaves out."""
    command, environment = CONTAINERS[name]
    report = await tried(command, environment, fast=False, only=["shutdown.streams"])
    assert failed(report) == {}
    assert report.results[-1].verdict is Verdict.PASS
