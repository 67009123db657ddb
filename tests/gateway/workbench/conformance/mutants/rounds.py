"""Whether the verdicts stay: each container is checked again and again, several at once.

``python -m tests.gateway.workbench.conformance.mutants.rounds --rounds 100 [NAME…]`` prints, for
each, how many of its runs said the same, and what the others said.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections import Counter
from contextlib import redirect_stdout
from io import StringIO

from partway.gateway.workbench.conformance.run import Report
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
from tests.gateway.workbench.conformance.mutants.registry import PROGRAM
from tests.gateway.workbench.conformance.mutants.trying import tried

#: The container that nothing is wrong with.
GOOD = "none"

Verdicts = tuple[tuple[str, str], ...]


def verdicts(report: Report) -> Verdicts:
    """Check and verdict, in the order of the checks' ids."""
    return tuple(sorted((each.check.id, each.verdict.value) for each in report.results))


async def check(name: str) -> tuple[Verdicts, float]:
    """One run with ``--fast``, and its seconds; the last check alone where that takes long."""
    if name == GOOD:
        report = await tried((*PROGRAM, GOOD))
    else:
        mutant = MUTANTS[name]
        only = None if mutant.fast else mutant.root
        report = await tried(mutant.command, fast=mutant.fast, only=only)
    return verdicts(report), report.seconds


async def rounds(names: list[str], count: int, at_once: int) -> int:
    """Check all of them ``count`` times; returns how many runs were not as most of their kind."""
    found: dict[str, list[tuple[Verdicts, float]]] = {name: [] for name in names}
    waiting = iter([name for _ in range(count) for name in names])

    async def work() -> None:
        for name in waiting:
            found[name].append(await check(name))
            done = sum(map(len, found.values()))
            if done % 100 == 0:
                print(f"{done} of {count * len(names)}", file=sys.stderr, flush=True)

    with redirect_stdout(StringIO()):
        await asyncio.gather(*(work() for _ in range(at_once)))
    return sum(_tell(name, each) for name, each in found.items())


def _tell(name: str, runs: list[tuple[Verdicts, float]]) -> int:
    (usual, times), *others = Counter(said for said, _ in runs).most_common()
    slowest = max(seconds for _, seconds in runs)
    print(f"{times} of {len(runs)} alike, slowest {slowest:.1f} s: {name}")
    for other, count in others:
        print(f"  {count} with {dict(sorted(set(other) - set(usual)))}")
    return len(runs) - times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    names = options.names or [GOOD, *MUTANTS]
    differed = asyncio.run(rounds(names, options.rounds, options.at_once))
    print(f"{options.rounds} rounds of {len(names)} containers: {differed} runs differ")
    return 1 if differed else 0


if __name__ == "__main__":
    sys.exit(main())
