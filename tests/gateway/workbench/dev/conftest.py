"""Shells that stand for containers."""

from __future__ import annotations

from partway.gateway.fleet.launchers.process import Command
from tests.gateway.fleet.conftest import leash

__all__ = ["leash"]

#: What they say when they take streams; in their scripts ``ready`` says it.
READY = "listening on http://127.0.0.1:1"


def shell(script: str) -> Command:
    return Command(["/bin/sh", "-c", f'ready() {{ echo "{READY}"; }}\n{script}'], port=1)
