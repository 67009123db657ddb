"""Run a mutant: ``python -m tests.gateway.workbench.conformance.mutants NAME serve``.

``none`` is the container that they are made of, and ``chat`` one that serves OpenAI's path too.
"""

from __future__ import annotations

import sys

from tests.gateway.workbench.conformance.mutants.base import Container, serve
from tests.gateway.workbench.conformance.mutants.catalogue import MUTANTS
from tests.gateway.workbench.conformance.mutants.openai import ChatContainer

#: The containers that nothing is wrong with.
WHOLE = {"none": Container, "chat": ChatContainer}


def main() -> int:
    match sys.argv[1:]:
        case [name, "serve"] if name in WHOLE:
            return serve(WHOLE[name])
        case [name, "serve"] if name in MUTANTS:
            return serve(MUTANTS[name].container)
    names = "\n  ".join(f"{each.name}: {each.breaks}" for each in MUTANTS.values())
    print(f"usage: python -m tests.gateway.workbench.conformance.mutants NAME serve\n  {names}")
    return 2


if __name__ == "__main__":
    sys.exit(main())
