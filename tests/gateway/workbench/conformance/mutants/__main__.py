"""Run a mutant: ``python -m tests.gateway.workbench.conformance.mutants NAME serve``.

``none`` is the container that they are made of.
"""

from __future__ import annotations

import sys

from tests.gateway.workbench.conformance.mutants.base import Container, serve
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS


def main() -> int:
    match sys.argv[1:]:
        case [name, "serve"] if name in MUTANTS or name == "none":
            return serve(MUTANTS[name].container if name in MUTANTS else Container)
    names = "\n  ".join(f"{each.name}: {each.breaks}" for each in MUTANTS.values())
    print(f"usage: python -m tests.gateway.workbench.conformance.mutants NAME serve\n  {names}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
