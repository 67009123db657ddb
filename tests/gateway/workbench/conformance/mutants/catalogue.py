"""All mutants, by their names."""

from tests.gateway.workbench.conformance.mutants import (  # noqa: F401 (each lists its own)
    closing,
    control,
    frames,
    http,
    life,
    messages,
    upgrades,
    violations,
)
from tests.gateway.workbench.conformance.mutants.registry import MUTANTS

__all__ = ["MUTANTS"]
