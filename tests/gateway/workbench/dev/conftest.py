"""Shells that stand for containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from partway.gateway.fleet.leash import Leash

#: What they say when they take streams; in their scripts ``ready`` says it.
READY = "listening on http://127.0.0.1:1"


def shell(script: str) -> list[str]:
    """The command of a container that is a shell."""
    return ["/bin/sh", "-c", f'ready() {{ echo "{READY}"; }}\n{script}']


@pytest.fixture
def leash() -> Iterator[Leash]:
    leash = Leash()
    yield leash
    leash.close()
