"""All mutants, by their names."""

from tests.gateway.workbench.conformance.mutants import (  # noqa: F401 (each lists its own)
    closing,
    closing_codes,
    control,
    frames,
    http,
    lengths,
    life,
    messages,
    sizes,
    text,
    upgrades,
    violations,
)
from tests.gateway.workbench.conformance.mutants.registry import MUTANTS

__all__ = ["MUTANTS"]
